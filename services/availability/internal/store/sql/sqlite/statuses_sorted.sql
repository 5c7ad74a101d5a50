SELECT q.* FROM (
SELECT s.ServerKey, s.Name, s.Online,
       a.Verdict, a.Reason, a.Detail, a.OnlineDecided, a.Maintenance, a.Held, a.HeldPath, a.HeardAt, a.HeardPath, a.Since, a.SecondWriterAt,
       m.IsOn, m.Reason, m.EndAt, m.ChangedBy, m.ChangedAt, m.Version,
       CASE @sort WHEN 'name' THEN COALESCE(n.NameKey, lower(s.Name)) WHEN 'verdict' THEN CAST(COALESCE(a.Verdict, 0) AS TEXT)
                  WHEN 'since' THEN COALESCE(a.Since, '') ELSE printf('%020d', s.ServerKey) END AS SortKey
FROM TblServer s
LEFT JOIN TblAvailabilityStatus a ON a.ServerKey = s.ServerKey
LEFT JOIN TblMaintenanceSwitch m ON m.ServerKey = s.ServerKey
LEFT JOIN TblAvailabilityServerName n ON n.ServerKey = s.ServerKey AND n.Name = s.Name COLLATE BINARY
WHERE s.Type = 'BenefitManager' COLLATE NOCASE
  AND (@verdicts = '' OR instr(@verdicts, CAST(a.Verdict AS TEXT)) > 0)
  AND (@held < 0 OR @held = (COALESCE(a.Held, '') <> ''))
  AND (@maintenance < 0 OR @maintenance = COALESCE(a.Maintenance, 0))
  AND (@disagrees < 0 OR @disagrees = (COALESCE(s.Online, 0) <> COALESCE(a.OnlineDecided, s.Online, 0)))
  AND (@codes = '' OR instr(@codes, ',' || (COALESCE(a.Verdict, 3) * 8 + CASE WHEN COALESCE(a.Held, '') <> '' THEN 4 ELSE 0 END
        + COALESCE(a.Maintenance, 0) * 2 + COALESCE(s.Online, 0)) || ',') > 0)
  AND (@query = '' OR instr(COALESCE(n.NameKey, lower(s.Name)), @query) > 0)
) q
WHERE @afterKey = 0
   OR (@descending = 0 AND (q.SortKey > @afterSort OR (q.SortKey = @afterSort AND q.ServerKey > @afterKey)))
   OR (@descending = 1 AND (q.SortKey < @afterSort OR (q.SortKey = @afterSort AND q.ServerKey > @afterKey)))
ORDER BY CASE WHEN @descending = 0 THEN q.SortKey END, CASE WHEN @descending = 1 THEN q.SortKey END DESC, q.ServerKey
LIMIT @limit;
