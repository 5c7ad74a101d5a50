SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), SeenAt, SteppedAt, StepMs FROM TblRegistryClock WHERE StateKey = 1;
