UPDATE TblAvailabilityStatus SET Revision = @revision,
    SecondWriterAt = CASE WHEN json_extract(v.value, '$[1]') = 1 THEN @now ELSE SecondWriterAt END
FROM json_each(@batch) v
WHERE TblAvailabilityStatus.ServerKey = json_extract(v.value, '$[0]');
