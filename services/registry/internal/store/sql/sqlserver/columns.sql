SELECT c.name, LOWER(t.name), CASE WHEN c.is_nullable = 0 AND c.default_object_id = 0 AND c.is_identity = 0 AND c.is_computed = 0 THEN 1 ELSE 0 END
FROM sys.columns c JOIN sys.types t ON t.user_type_id = c.user_type_id
WHERE c.object_id = OBJECT_ID(N'dbo.' + @table);
