UPDATE dbo.TblAvailabilityPath SET BrakeOrder = @order, OrderedBy = @orderedBy, OrderedAt = CAST(@orderedAt AS datetime2(3)) WHERE Path = @path;
