SELECT SYSUTCDATETIME(), c.Epoch, c.DirectoryVersion, c.Agents, c.Requests, c.RequestsServed, c.RequestedBy,
       CASE WHEN EXISTS (SELECT 1 FROM dbo.TblAgent a WHERE a.PrimaryControlServerKey IS NULL) THEN 1 ELSE 0 END
FROM dbo.TblCloudState c WHERE c.StateKey = 1;
