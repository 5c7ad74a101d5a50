INSERT INTO TblAvailabilityServerName (ServerKey, Name, NameKey)
SELECT json_extract(v.value, '$[0]'), json_extract(v.value, '$[1]'), json_extract(v.value, '$[2]')
FROM json_each(@batch) v
WHERE true
ON CONFLICT (ServerKey) DO UPDATE SET Name = excluded.Name, NameKey = excluded.NameKey;
