SELECT Epoch, At, Causes, Agents, Placed, PrimariesMoved, SecondariesMoved
FROM TblPartitionEvent
WHERE (@startAt IS NULL OR At >= @startAt) AND (@endAt IS NULL OR At < @endAt) AND (@afterEpoch = 0 OR Epoch > @afterEpoch)
ORDER BY Epoch
LIMIT @limit;
