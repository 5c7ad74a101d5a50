SELECT TOP (@limit) s.ServerKey, s.Name
FROM dbo.TblServer s LEFT JOIN dbo.TblAvailabilityServerName n ON n.ServerKey = s.ServerKey
WHERE n.ServerKey IS NULL OR n.Name <> CAST(COALESCE(s.Name, N'') AS nvarchar(max)) COLLATE Latin1_General_BIN2
ORDER BY s.ServerKey;
