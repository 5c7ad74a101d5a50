UPDATE dbo.TblAvailabilityState SET Acts = Acts WHERE StateKey = 0;
