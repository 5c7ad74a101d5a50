DELETE FROM TblServerName WHERE ServerKey IN (
    SELECT n.ServerKey FROM TblServerName n WHERE NOT EXISTS (SELECT 1 FROM TblServer s WHERE s.ServerKey = n.ServerKey) LIMIT @limit);
