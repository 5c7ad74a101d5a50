DELETE FROM TblAvailabilityServerName WHERE ServerKey IN (
    SELECT n.ServerKey FROM TblAvailabilityServerName n WHERE NOT EXISTS (SELECT 1 FROM TblServer s WHERE s.ServerKey = n.ServerKey) LIMIT @limit);
