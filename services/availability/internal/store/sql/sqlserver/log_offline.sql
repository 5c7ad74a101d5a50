INSERT INTO dbo.TblServerOfflineLog (ServerKey, CreateDate)
SELECT v.ServerKey, CAST(@now AS datetime2(3)) FROM OPENJSON(@keys) WITH (ServerKey int '$') v;
