DECLARE @changed TABLE (ServerKey bigint NOT NULL);
UPDATE dbo.TblServer SET
    Name   = CASE WHEN @setName = 1 THEN @newName ELSE Name END,
    Url    = CASE WHEN @setUrl = 1 THEN @newUrl ELSE Url END,
    Type   = CASE WHEN @setType = 1 THEN @newType ELSE dbo.TblServer.Type END,
    Active = CASE WHEN @setActive = 1 THEN @newActive ELSE Active END
OUTPUT inserted.ServerKey INTO @changed
WHERE ServerKey = @serverKey AND COALESCE(Active, 0) = @active
  AND CAST(CAST(Name AS nvarchar(max)) AS varbinary(max)) = CAST(CAST(@name AS nvarchar(max)) AS varbinary(max))
  AND CAST(CAST(COALESCE(Url, N'') AS nvarchar(max)) AS varbinary(max)) = CAST(CAST(COALESCE(@url, N'') AS nvarchar(max)) AS varbinary(max))
  AND CAST(CAST(COALESCE(dbo.TblServer.Type, N'') AS nvarchar(max)) AS varbinary(max)) = CAST(CAST(COALESCE(@type, N'') AS nvarchar(max)) AS varbinary(max));
SELECT ServerKey AS OwnResult FROM @changed;
