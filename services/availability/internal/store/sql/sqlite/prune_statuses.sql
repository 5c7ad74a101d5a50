DELETE FROM TblAvailabilityStatus WHERE NOT EXISTS (SELECT 1 FROM TblServer s WHERE s.ServerKey = TblAvailabilityStatus.ServerKey);
