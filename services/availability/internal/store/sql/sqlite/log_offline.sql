INSERT INTO TblServerOfflineLog (ServerKey, CreateDate) SELECT v.value, @now FROM json_each(@keys) v;
