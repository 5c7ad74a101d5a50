DELETE FROM TblFormerLink WHERE ServerKey = @serverKey;
