SELECT PrimaryControlServerKey, COUNT_BIG(*) FROM dbo.TblAgent GROUP BY PrimaryControlServerKey;
