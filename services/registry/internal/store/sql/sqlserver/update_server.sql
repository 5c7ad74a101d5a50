UPDATE dbo.TblServer SET Name = @newName, Url = @newUrl, Type = @newType, Active = @newActive
WHERE ServerKey = @serverKey AND COALESCE(Active, 0) = @active
  AND CAST(CAST(Name AS nvarchar(max)) AS varbinary(max)) = CAST(CAST(@name AS nvarchar(max)) AS varbinary(max))
  AND CAST(CAST(COALESCE(Url, N'') AS nvarchar(max)) AS varbinary(max)) = CAST(CAST(COALESCE(@url, N'') AS nvarchar(max)) AS varbinary(max))
  AND CAST(CAST(COALESCE(dbo.TblServer.Type, N'') AS nvarchar(max)) AS varbinary(max)) = CAST(CAST(COALESCE(@type, N'') AS nvarchar(max)) AS varbinary(max));
