DECLARE @moved TABLE (AgentKey bigint NOT NULL PRIMARY KEY, PrimaryControlServerKey bigint NULL, SecondaryControlServerKey bigint NULL);
INSERT INTO @moved (AgentKey, PrimaryControlServerKey, SecondaryControlServerKey)
SELECT v.AgentKey, v.PrimaryControlServerKey, v.SecondaryControlServerKey
FROM OPENJSON(@batch) WITH (AgentKey bigint '$[0]', PrimaryControlServerKey bigint '$[1]', SecondaryControlServerKey bigint '$[2]') v;
UPDATE dbo.TblAgent SET
    PrimaryControlServerKey   = m.PrimaryControlServerKey,
    SecondaryControlServerKey = m.SecondaryControlServerKey
FROM @moved m
WHERE m.AgentKey = dbo.TblAgent.AgentKey;
