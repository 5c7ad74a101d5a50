UPDATE TblControlServer SET
    Listed     = json_extract(v.value, '$[1]'),
    UnlistedAt = CASE WHEN json_extract(v.value, '$[1]') = 0 THEN @now ELSE UnlistedAt END,
    UnlistedAs = CASE WHEN json_extract(v.value, '$[1]') = 0 THEN json_extract(v.value, '$[2]') ELSE UnlistedAs END
FROM json_each(@batch) v
WHERE TblControlServer.ControlServerKey = json_extract(v.value, '$[0]');
