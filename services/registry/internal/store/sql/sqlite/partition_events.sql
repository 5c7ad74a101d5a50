SELECT Epoch, At, Causes, Agents, Placed, PrimariesMoved, SecondariesMoved
FROM TblPartitionEvent
WHERE (@startAt IS NULL OR At >= @startAt) AND (@endAt IS NULL OR At < @endAt) AND (@beforeEpoch = 0 OR Epoch < @beforeEpoch)
ORDER BY Epoch DESC
LIMIT @limit;
