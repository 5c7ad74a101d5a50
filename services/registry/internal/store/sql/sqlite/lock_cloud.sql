UPDATE TblCloudState SET Requests = Requests WHERE StateKey = 1;
