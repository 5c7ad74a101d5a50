SELECT PrimaryControlServerKey, COUNT(*) FROM TblAgent GROUP BY PrimaryControlServerKey;
