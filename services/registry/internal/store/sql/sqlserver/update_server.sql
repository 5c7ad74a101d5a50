UPDATE dbo.TblServer SET Name = @newName, Url = @newUrl, Type = @newType, Active = @newActive
WHERE ServerKey = @serverKey AND Name COLLATE Latin1_General_BIN2 = @name AND COALESCE(Url, N'') COLLATE Latin1_General_BIN2 = COALESCE(@url, N'')
  AND COALESCE(Type, N'') COLLATE Latin1_General_BIN2 = COALESCE(@type, N'') AND Active = @active;
