UPDATE TblServer SET
    Name   = CASE WHEN @setName = 1 THEN @newName ELSE Name END,
    Url    = CASE WHEN @setUrl = 1 THEN @newUrl ELSE Url END,
    Type   = CASE WHEN @setType = 1 THEN @newType ELSE Type END,
    Active = CASE WHEN @setActive = 1 THEN @newActive ELSE Active END
WHERE ServerKey = @serverKey AND Name = @name COLLATE BINARY AND COALESCE(Url, '') = COALESCE(@url, '') AND COALESCE(Type, '') = COALESCE(@type, '') AND COALESCE(Active, 0) = @active
RETURNING ServerKey;
