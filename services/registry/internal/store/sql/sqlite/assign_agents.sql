UPDATE TblAgent SET
    PrimaryControlServerKey   = json_extract(v.value, '$[1]'),
    SecondaryControlServerKey = json_extract(v.value, '$[2]')
FROM json_each(@batch) v
WHERE TblAgent.AgentKey = json_extract(v.value, '$[0]');
