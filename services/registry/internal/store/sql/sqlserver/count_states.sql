SELECT RegistrationState, COUNT_BIG(*) FROM dbo.TblAgent GROUP BY RegistrationState;
