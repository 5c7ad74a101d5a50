UPDATE TblAgent SET
    ReportedName        = json_extract(v.value, '$[1]'),
    Hostname            = json_extract(v.value, '$[2]'),
    AgentVersion        = json_extract(v.value, '$[3]'),
    ReportedHttpBaseUrl = json_extract(v.value, '$[4]'),
    Capabilities        = json_extract(v.value, '$[5]'),
    HostnameKey         = json_extract(v.value, '$[6]')
FROM json_each(@batch) v
WHERE TblAgent.AgentKey = json_extract(v.value, '$[0]');
