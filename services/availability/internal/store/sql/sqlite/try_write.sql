UPDATE TblAvailabilityState SET Acts = Acts WHERE StateKey = 0;
