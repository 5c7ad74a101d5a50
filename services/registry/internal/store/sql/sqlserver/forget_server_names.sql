DELETE FROM dbo.TblServerName WHERE ServerKey IN (
    SELECT TOP (@limit) n.ServerKey FROM dbo.TblServerName n WHERE NOT EXISTS (SELECT 1 FROM dbo.TblServer s WHERE s.ServerKey = n.ServerKey));
