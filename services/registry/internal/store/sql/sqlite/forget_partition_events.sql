DELETE FROM TblPartitionEvent WHERE At < @before;
