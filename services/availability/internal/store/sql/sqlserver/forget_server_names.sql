DELETE FROM dbo.TblAvailabilityServerName WHERE ServerKey IN (
    SELECT TOP (@limit) n.ServerKey FROM dbo.TblAvailabilityServerName n WHERE NOT EXISTS (SELECT 1 FROM dbo.TblServer s WHERE s.ServerKey = n.ServerKey));
