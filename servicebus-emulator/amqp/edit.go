package amqp

// PropertiesField is the place of a field in the properties section.
type PropertiesField int

// Fields that a broker changes.
const (
	FieldMessageID      PropertiesField = 0
	FieldTo             PropertiesField = 2
	FieldSubject        PropertiesField = 3
	FieldReplyTo        PropertiesField = 4
	FieldCorrelationID  PropertiesField = 5
	FieldContentType    PropertiesField = 6
	FieldGroupID        PropertiesField = 10
	FieldReplyToGroupID PropertiesField = 12
)

// SetPropertiesField answers a properties section with a field set; nil removes it. A section that is absent or cannot be
// read counts as empty.
func SetPropertiesField(section []byte, field PropertiesField, value any) []byte {
	var list List
	if v, err := DecodeValue(section); err == nil {
		list, _ = v.(List)
	}
	for len(list) <= int(field) {
		list = append(list, nil)
	}
	list[field] = value
	return AppendValue(nil, list)
}
