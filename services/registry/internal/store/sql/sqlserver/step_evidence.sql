UPDATE dbo.TblIngestEvidence SET HealthySince = NULL, AliveAt = CASE WHEN AliveAt > CAST(@now AS datetime2(3)) THEN CAST(@now AS datetime2(3)) ELSE AliveAt END;
