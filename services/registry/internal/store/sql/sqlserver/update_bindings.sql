UPDATE dbo.TblAgent SET
    IisBindings           = v.IisBindings,
    IisBindingCount       = v.IisBindingCount,
    IisBindingsBootId     = v.IisBindingsBootId,
    IisBindingsSequence   = v.IisBindingsSequence,
    IisBindingsObservedAt = v.IisBindingsObservedAt
FROM (
    SELECT * FROM OPENJSON(@batch) WITH (
        AgentKey bigint '$[0]', IisBindings nvarchar(max) '$[1]' AS JSON, IisBindingCount int '$[2]', IisBindingsBootId nvarchar(128) '$[3]',
        IisBindingsSequence bigint '$[4]', IisBindingsObservedAt datetime2(3) '$[5]')
) v
WHERE v.AgentKey = dbo.TblAgent.AgentKey;
