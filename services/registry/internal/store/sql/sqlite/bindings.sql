SELECT Hostname, IisBindings FROM TblAgent WHERE NameKey = @nameKey;
