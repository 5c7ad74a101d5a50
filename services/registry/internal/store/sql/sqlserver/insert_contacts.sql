INSERT INTO dbo.TblAgent (Name, NameKey, ReportedName, RegistrationState, OnServiceBus, CreatedAt)
SELECT v.Name, v.NameKey, v.Name, 1, v.OnServiceBus, CAST(@now AS datetime2(3))
FROM OPENJSON(@batch) WITH (NameKey nvarchar(512) '$[0]', Name nvarchar(128) '$[1]', OnServiceBus bit '$[2]') v
WHERE NOT EXISTS (SELECT 1 FROM dbo.TblAgent a WHERE a.NameKey = v.NameKey COLLATE Latin1_General_BIN2);
