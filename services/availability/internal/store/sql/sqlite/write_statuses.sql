INSERT INTO TblAvailabilityStatus (ServerKey, Verdict, Reason, Detail, OnlineDecided, Maintenance, Held, HeldPath, HeardAt, HeardPath, Since, Revision)
SELECT json_extract(v.value, '$[0]'), json_extract(v.value, '$[1]'), json_extract(v.value, '$[2]'), json_extract(v.value, '$[3]'),
       json_extract(v.value, '$[4]'), json_extract(v.value, '$[5]'), json_extract(v.value, '$[6]'), json_extract(v.value, '$[7]'),
       json_extract(v.value, '$[8]'), json_extract(v.value, '$[9]'), json_extract(v.value, '$[10]'), @revision
FROM json_each(@batch) v
WHERE true
ON CONFLICT (ServerKey) DO UPDATE SET
    Verdict = excluded.Verdict, Reason = excluded.Reason, Detail = excluded.Detail, OnlineDecided = excluded.OnlineDecided,
    Maintenance = excluded.Maintenance, Held = excluded.Held, HeldPath = excluded.HeldPath, HeardAt = excluded.HeardAt,
    HeardPath = excluded.HeardPath, Since = excluded.Since, Revision = excluded.Revision;
