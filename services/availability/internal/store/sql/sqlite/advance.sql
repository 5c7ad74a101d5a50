UPDATE TblAvailabilityState SET Revision = Revision + 1, Acts = Acts + @acts, SecondWriterAt = COALESCE(@secondWriterAt, SecondWriterAt)
WHERE StateKey = 1
RETURNING Revision, strftime('%Y-%m-%dT%H:%M:%fZ', 'now');
