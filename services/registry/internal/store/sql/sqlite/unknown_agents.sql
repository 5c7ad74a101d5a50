SELECT n.value FROM json_each(@names) n
WHERE NOT EXISTS (SELECT 1 FROM TblAgent a WHERE a.NameKey = n.value);
