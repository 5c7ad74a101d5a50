INSERT INTO dbo.TblAffinityGroup (Name, NameKey) VALUES (@name, @nameKey);
