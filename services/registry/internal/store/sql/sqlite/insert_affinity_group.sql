INSERT INTO TblAffinityGroup (Name, NameKey) VALUES (@name, @nameKey);
