UPDATE TblAgent SET
    IisBindings           = json_extract(v.value, '$[1]'),
    IisBindingCount       = json_extract(v.value, '$[2]'),
    IisBindingsBootId     = json_extract(v.value, '$[3]'),
    IisBindingsSequence   = json_extract(v.value, '$[4]'),
    IisBindingsObservedAt = json_extract(v.value, '$[5]')
FROM json_each(@batch) v
WHERE TblAgent.AgentKey = json_extract(v.value, '$[0]');
