UPDATE dbo.TblAgent SET
    ReportedName        = v.ReportedName,
    Hostname            = v.Hostname,
    AgentVersion        = v.AgentVersion,
    ReportedHttpBaseUrl = v.ReportedHttpBaseUrl,
    Capabilities        = v.Capabilities,
    HostnameKey         = v.HostnameKey
FROM (
    SELECT * FROM OPENJSON(@batch) WITH (
        AgentKey bigint '$[0]', ReportedName nvarchar(128) '$[1]', Hostname nvarchar(512) '$[2]', AgentVersion nvarchar(128) '$[3]',
        ReportedHttpBaseUrl nvarchar(4000) '$[4]', Capabilities nvarchar(max) '$[5]' AS JSON, HostnameKey nvarchar(1024) '$[6]')
) v
WHERE v.AgentKey = dbo.TblAgent.AgentKey;
