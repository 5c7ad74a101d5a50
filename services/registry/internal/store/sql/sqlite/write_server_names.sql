INSERT INTO TblServerName (ServerKey, Name, Folded, NameHash)
SELECT json_extract(v.value, '$[0]'), json_extract(v.value, '$[1]'), json_extract(v.value, '$[2]'), json_extract(v.value, '$[3]')
FROM json_each(@batch) v
WHERE true
ON CONFLICT (ServerKey) DO UPDATE SET Name = excluded.Name, Folded = excluded.Folded, NameHash = excluded.NameHash;
