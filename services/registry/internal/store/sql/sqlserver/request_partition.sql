UPDATE dbo.TblCloudState SET Requests = Requests + 1, RequestedBy = @actor WHERE StateKey = 1;
