UPDATE TblAgent SET TokenHash = unhex(json_extract(v.value, '$[1]')), TokenClaimable = 0
FROM json_each(@batch) v
WHERE TblAgent.AgentKey = json_extract(v.value, '$[0]') AND TblAgent.TokenHash IS NULL AND TblAgent.TokenClaimable = 1;
