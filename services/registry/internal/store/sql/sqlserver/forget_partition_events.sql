DELETE FROM dbo.TblPartitionEvent WHERE At < CAST(@before AS datetime2(3));
