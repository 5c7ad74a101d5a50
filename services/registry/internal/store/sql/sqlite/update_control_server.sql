UPDATE TblControlServer SET Mode = @mode, Weight = @weight, Standby = @standby, AffinityGroupKey = @group, ChangedBy = @actor,
    DecisionVersion = DecisionVersion + 1
WHERE ControlServerKey = @key AND DecisionVersion = @decisionVersion;
