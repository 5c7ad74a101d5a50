UPDATE TblServer SET Online = json_extract(v.value, '$[1]')
FROM json_each(@batch) v
WHERE TblServer.ServerKey = json_extract(v.value, '$[0]') AND COALESCE(TblServer.Online, 0) <> json_extract(v.value, '$[1]')
  AND TblServer.Type = 'BenefitManager' COLLATE NOCASE
RETURNING ServerKey, Online;
