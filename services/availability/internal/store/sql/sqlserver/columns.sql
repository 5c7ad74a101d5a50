SELECT c.name, LOWER(TYPE_NAME(c.system_type_id)), CASE WHEN c.is_nullable = 0 AND c.default_object_id = 0 AND c.is_identity = 0 AND c.is_computed = 0 AND TYPE_NAME(c.system_type_id) <> N'timestamp' THEN 1 ELSE 0 END
FROM sys.columns c
WHERE c.object_id = OBJECT_ID(N'dbo.' + @table);
