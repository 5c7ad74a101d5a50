DELETE FROM dbo.TblIngestEvidence WHERE AliveAt < CAST(@before AS datetime2(3));
