UPDATE TblIngestEvidence SET HealthySince = NULL, AliveAt = CASE WHEN AliveAt > @now THEN @now ELSE AliveAt END;
