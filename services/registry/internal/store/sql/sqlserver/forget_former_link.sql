DELETE FROM dbo.TblFormerLink WHERE ServerKey = @serverKey;
