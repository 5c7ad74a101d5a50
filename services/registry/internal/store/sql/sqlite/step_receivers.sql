UPDATE TblAgentReceiver SET
    AnsweredAt = CASE WHEN AnsweredAt > @now THEN @now ELSE AnsweredAt END,
    UnansweredSince = CASE WHEN UnansweredSince > @now THEN @now ELSE UnansweredSince END
WHERE AnsweredAt > @now OR UnansweredSince > @now;
