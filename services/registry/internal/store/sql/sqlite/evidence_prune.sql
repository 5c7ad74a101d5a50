DELETE FROM TblIngestEvidence WHERE AliveAt < @before;
