DECLARE @heard TABLE (NameKey nvarchar(512) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY, Name nvarchar(128) NOT NULL, OnServiceBus bit NOT NULL, TokenHash varbinary(64) NULL);
INSERT INTO @heard (NameKey, Name, OnServiceBus, TokenHash)
SELECT v.NameKey, v.Name, v.OnServiceBus, CONVERT(varbinary(64), v.TokenHash, 2)
FROM OPENJSON(@batch) WITH (NameKey nvarchar(512) '$[0]', Name nvarchar(128) '$[1]', OnServiceBus bit '$[2]', TokenHash varchar(128) '$[3]') v;
INSERT INTO dbo.TblAgent (Name, NameKey, ReportedName, RegistrationState, OnServiceBus, TokenHash, CreatedAt)
SELECT h.Name, h.NameKey, h.Name, 1, h.OnServiceBus, h.TokenHash, CAST(@now AS datetime2(3))
FROM @heard h
WHERE NOT EXISTS (SELECT 1 FROM dbo.TblAgent a WHERE a.NameKey = h.NameKey);
