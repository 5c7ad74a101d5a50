UPDATE dbo.TblAgentReceiver SET
    AnsweredAt = CASE WHEN AnsweredAt > CAST(@now AS datetime2(3)) THEN CAST(@now AS datetime2(3)) ELSE AnsweredAt END,
    UnansweredSince = CASE WHEN UnansweredSince > CAST(@now AS datetime2(3)) THEN CAST(@now AS datetime2(3)) ELSE UnansweredSince END
WHERE AnsweredAt > CAST(@now AS datetime2(3)) OR UnansweredSince > CAST(@now AS datetime2(3));
