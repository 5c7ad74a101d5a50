SELECT name, lower(type), CASE WHEN "notnull" = 1 AND dflt_value IS NULL AND pk = 0 THEN 1 ELSE 0 END FROM pragma_table_info(@table);
