UPDATE dbo.TblCloudState SET Epoch = @epoch, DirectoryVersion = @directoryVersion, Directory = @directory, Agents = @agents, RequestsServed = @requests,
    RequestedBy = CASE WHEN Requests = @requests THEN NULL ELSE RequestedBy END
WHERE StateKey = 1 AND Epoch = @seen AND RequestsServed <= @requests;
