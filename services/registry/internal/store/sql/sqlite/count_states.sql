SELECT RegistrationState, COUNT(*) FROM TblAgent GROUP BY RegistrationState;
