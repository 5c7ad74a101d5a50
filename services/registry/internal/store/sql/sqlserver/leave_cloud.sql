UPDATE dbo.TblControlServer SET RenewedAt = CAST(@endedAt AS datetime2(3))
WHERE NameKey = @nameKey AND GrpcEndpoint = @grpcEndpoint AND RenewedAt > CAST(@endedAt AS datetime2(3));
