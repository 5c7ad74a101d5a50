SELECT v.RightName, v.TableName, v.ColumnName
FROM OPENJSON(@asked) WITH (RightName nvarchar(60) '$[0]', TableName nvarchar(128) '$[1]', ColumnName nvarchar(128) '$[2]') v
WHERE COALESCE(CASE WHEN v.ColumnName = N'' THEN HAS_PERMS_BY_NAME(N'dbo.' + v.TableName, N'OBJECT', v.RightName)
                    ELSE HAS_PERMS_BY_NAME(N'dbo.' + v.TableName, N'OBJECT', v.RightName, v.ColumnName, N'COLUMN') END, 0) = 0;
