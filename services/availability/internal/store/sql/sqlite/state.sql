SELECT Revision, Acts, SecondWriterAt, strftime('%Y-%m-%dT%H:%M:%fZ', 'now') FROM TblAvailabilityState WHERE StateKey = 1;
