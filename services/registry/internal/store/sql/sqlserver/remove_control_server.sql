DELETE FROM dbo.TblControlServer WHERE ControlServerKey = @key AND DecisionVersion = @decisionVersion;
