SELECT DirectoryVersion, Directory FROM TblCloudState WHERE StateKey = 1;
