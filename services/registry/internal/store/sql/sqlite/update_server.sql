UPDATE TblServer SET Name = @newName, Url = @newUrl, Type = @newType, Active = @newActive
WHERE ServerKey = @serverKey AND Name = @name COLLATE BINARY AND COALESCE(Url, '') = COALESCE(@url, '') AND COALESCE(Type, '') = COALESCE(@type, '') AND COALESCE(Active, 0) = @active;
