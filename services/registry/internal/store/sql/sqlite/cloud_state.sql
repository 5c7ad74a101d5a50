SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), c.Epoch, c.DirectoryVersion, c.Agents, c.Requests, c.RequestsServed, c.RequestedBy,
       EXISTS (SELECT 1 FROM TblAgent a WHERE a.PrimaryControlServerKey IS NULL)
FROM TblCloudState c WHERE c.StateKey = 1;
