DECLARE @heard TABLE (NameKey nvarchar(512) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY, Name nvarchar(128) NOT NULL, OnServiceBus bit NOT NULL);
INSERT INTO @heard (NameKey, Name, OnServiceBus)
SELECT v.NameKey, v.Name, v.OnServiceBus
FROM OPENJSON(@batch) WITH (NameKey nvarchar(512) '$[0]', Name nvarchar(128) '$[1]', OnServiceBus bit '$[2]') v;
INSERT INTO dbo.TblAgent (Name, NameKey, ReportedName, RegistrationState, OnServiceBus, CreatedAt)
SELECT h.Name, h.NameKey, h.Name, 1, h.OnServiceBus, CAST(@now AS datetime2(3))
FROM @heard h
WHERE NOT EXISTS (SELECT 1 FROM dbo.TblAgent a WHERE a.NameKey = h.NameKey);
