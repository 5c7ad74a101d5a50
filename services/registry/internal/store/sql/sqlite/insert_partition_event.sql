INSERT INTO TblPartitionEvent (Epoch, At, Causes, Agents, Placed, PrimariesMoved, SecondariesMoved)
VALUES (@epoch, @at, @causes, @agents, @placed, @primariesMoved, @secondariesMoved);
