SELECT COUNT(*) FROM dbo.TblAgentReceiver WHERE Unanswered >= @suspectFrom;
