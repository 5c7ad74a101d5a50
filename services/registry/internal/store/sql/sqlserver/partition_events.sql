SELECT TOP (@limit) Epoch, At, Causes, Agents, Placed, PrimariesMoved, SecondariesMoved
FROM dbo.TblPartitionEvent
WHERE (@startAt IS NULL OR At >= CAST(@startAt AS datetime2(3))) AND (@endAt IS NULL OR At < CAST(@endAt AS datetime2(3)))
  AND (@afterEpoch = 0 OR Epoch < @afterEpoch)
ORDER BY Epoch DESC;
