SELECT DirectoryVersion, Directory FROM dbo.TblCloudState WHERE StateKey = 1;
