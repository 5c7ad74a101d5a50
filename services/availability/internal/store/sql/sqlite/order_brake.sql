UPDATE TblAvailabilityPath SET BrakeOrder = @order, OrderedBy = @orderedBy, OrderedAt = @orderedAt WHERE Path = @path;
