UPDATE dbo.TblAgent SET TokenHash = CONVERT(varbinary(64), v.TokenHash, 2), TokenClaimable = 0
FROM (SELECT * FROM OPENJSON(@batch) WITH (AgentKey bigint '$[0]', TokenHash varchar(128) '$[1]')) v
WHERE v.AgentKey = dbo.TblAgent.AgentKey AND dbo.TblAgent.TokenHash IS NULL AND dbo.TblAgent.TokenClaimable = 1;
