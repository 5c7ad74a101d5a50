INSERT INTO dbo.TblPartitionEvent (Epoch, At, Causes, Agents, Placed, PrimariesMoved, SecondariesMoved)
VALUES (@epoch, CAST(@at AS datetime2(3)), @causes, @agents, @placed, @primariesMoved, @secondariesMoved);
