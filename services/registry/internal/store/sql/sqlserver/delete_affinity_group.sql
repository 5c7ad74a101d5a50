DELETE FROM dbo.TblAffinityGroup WHERE GroupKey = @key AND DecisionVersion = @decisionVersion;
