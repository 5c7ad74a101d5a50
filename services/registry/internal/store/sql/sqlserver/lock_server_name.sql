DECLARE @outcome int;
EXEC @outcome = sp_getapplock @resource, N'Exclusive', N'Transaction', 5000;
SELECT @outcome;
