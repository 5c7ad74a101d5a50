DELETE FROM TblAffinityGroup WHERE GroupKey = @key AND DecisionVersion = @decisionVersion;
