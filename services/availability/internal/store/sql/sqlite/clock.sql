SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), SeenAt, SteppedAt, StepMs FROM TblAvailabilityState WHERE StateKey = 1;
