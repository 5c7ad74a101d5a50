INSERT INTO TblAgent (Name, NameKey, ReportedName, RegistrationState, OnServiceBus, TokenHash, CreatedAt)
SELECT json_extract(v.value, '$[1]'), json_extract(v.value, '$[0]'), json_extract(v.value, '$[1]'), 1, json_extract(v.value, '$[2]'),
       unhex(json_extract(v.value, '$[3]')), @now
FROM json_each(@batch) v
WHERE true
ON CONFLICT (NameKey) DO NOTHING;
