DELETE FROM dbo.TblAvailabilityStatus WHERE NOT EXISTS (SELECT 1 FROM dbo.TblServer s WHERE s.ServerKey = dbo.TblAvailabilityStatus.ServerKey);
