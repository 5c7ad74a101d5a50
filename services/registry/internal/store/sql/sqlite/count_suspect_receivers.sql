SELECT COUNT(*) FROM TblAgentReceiver WHERE Unanswered >= @suspectFrom;
