DELETE FROM TblControlServer WHERE ControlServerKey = @key AND DecisionVersion = @decisionVersion;
