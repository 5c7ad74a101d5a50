SELECT Hostname, IisBindings FROM dbo.TblAgent WHERE NameKey = @nameKey;
