UPDATE dbo.TblControlServer SET
    RenewedAt = CASE WHEN RenewedAt > CAST(@since AS datetime2(3)) THEN CASE WHEN DATEADD(second, CAST(@seconds AS int), RenewedAt) > CAST(@now AS datetime2(3)) THEN CAST(@now AS datetime2(3)) ELSE DATEADD(second, CAST(@seconds AS int), RenewedAt) END ELSE RenewedAt END,
    UnlistedAt = CASE WHEN UnlistedAt > CAST(@since AS datetime2(3)) THEN CASE WHEN DATEADD(second, CAST(@seconds AS int), UnlistedAt) > CAST(@now AS datetime2(3)) THEN CAST(@now AS datetime2(3)) ELSE DATEADD(second, CAST(@seconds AS int), UnlistedAt) END ELSE UnlistedAt END
WHERE RenewedAt > CAST(@since AS datetime2(3)) OR UnlistedAt > CAST(@since AS datetime2(3));
