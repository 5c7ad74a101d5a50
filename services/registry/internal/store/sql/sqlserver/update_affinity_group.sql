UPDATE dbo.TblAffinityGroup SET Name = @name, NameKey = @nameKey, DecisionVersion = DecisionVersion + 1
WHERE GroupKey = @key AND DecisionVersion = @decisionVersion;
