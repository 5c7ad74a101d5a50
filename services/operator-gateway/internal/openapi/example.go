package openapi

import (
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

const (
	exampleID   = "0b5c6f1e-7f0a-4a3e-9d7a-4f1f5a0c9b21"
	exampleEtag = "5f0c1d"
	exampleURL  = "https://bm-ams-01.example.test"
)

// exampleTexts are example values of texts, by "Message.field" or by the field's name alone.
var exampleTexts = map[string]string{
	"agent": "BM-AMS-01", "agents": "BM-AMS-01", "add_agents": "BM-AMS-01", "remove_agents": "BM-AMS-02", "server": "BM-AMS-01", "name": "BM-AMS-01", "server_name": "BM-AMS-01",
	"hostname": "ams-01.example.test", "agent_version": "4.2.0", "version": "4.2.0", "boot_id": exampleID, "id": exampleID, "command": exampleID, "command_id": exampleID,
	"etag": exampleEtag, "current_etag": exampleEtag, "list_etag": exampleEtag, "page_token": "", "next_page_token": "", "query": "ams", "order_by": "name",
	"url": exampleURL, "http_base_url": "https://bm-ams-01.example.test:8443", "reported_http_base_url": "https://bm-ams-01.example.test:8443", "type": "BenefitManager",
	"service": "W3SVC", "pool": "BenefitManager", "app_pool": "BenefitManager", "installation": "benefit-manager-4", "package": "benefit-manager",
	"reason": "new disks", "detail": "the last heartbeat is 12s old", "refusal": "", "fallback": "", "stopped": "", "warning": "", "warnings": "the agent has no transport yet",
	"problem": "", "problems": "", "banners": "", "cause": "", "blind": "", "actor": "operator@example.test", "decided_by": "operator@example.test",
	"changed_by": "operator@example.test", "created_by": "operator@example.test", "ordered_by": "operator@example.test", "issued_by": "operator@example.test",
	"control_server": "control-1", "control_servers": "control-1", "add_control_servers": "control-1", "remove_control_servers": "control-2", "affinity_group": "amsterdam", "group": "amsterdam",
	"grpc_endpoint": "control-1.example.test:7443", "rest_endpoint": "https://control-1.example.test:7444", "new_name": "BM-AMS-01", "answered_as": "BM-AMS-01", "freshness": "fresh",
	"rule": "4", "number": "4", "condition": "on Service Bus, and its heartbeat is fresh", "because": "the last bus heartbeat is 12s old", "capabilities": "certificates",
	"display_name": "World Wide Web Publishing Service", "product": "BenefitManager", "path": `C:\BenefitManager`, "runtime_version": "v4.0", "pipeline_mode": "Integrated",
	"identity": "ApplicationPoolIdentity", "subject": "CN=bm-ams-01.example.test", "issuer": "CN=Example CA", "subject_alternative_names": "bm-ams-01.example.test",
	"thumbprint": "5F0C1D2E3A4B5C6D7E8F90A1B2C3D4E5F60718A9", "certificate_thumbprint": "5F0C1D2E3A4B5C6D7E8F90A1B2C3D4E5F60718A9", "bound_sites": "BenefitManager",
	"site_name": "BenefitManager", "sites": "BenefitManager", "site_state": "Started", "protocol": "https", "binding_information": "*:443:bm-ams-01.example.test",
	"before": "stopped", "after": "running", "field": "W3SVC", "message": "restarted", "target_agent": "BM-AMS-01", "description": "control-2 left", "from": "control-2", "to": "control-1",
	"holder": "availability-1", "start": "2027-03-28T02:30", "zone": "Europe/Amsterdam", "start_local": "2027-03-28T03:30", "end_local": "2027-03-28T05:00", "ends": "05:00",
	"WindowRule.rule": "FREQ=WEEKLY;BYDAY=SU", "BatchAcceptResult.reason": "", "BatchAcceptResult.detail": "", "BatchRunItem.reason": "", "BatchRunItem.detail": "",
	"Service.name": "W3SVC", "AppPool.name": "BenefitManager", "Package.name": "benefit-manager", "Package.version": "4.2.0", "Installation.id": "benefit-manager-4",
	"ControlServer.name": "control-1", "AffinityGroup.name": "amsterdam", "CreateAffinityGroupRequest.name": "amsterdam", "UpdateAffinityGroupRequest.name": "rotterdam",
	"SetControlServerModeRequest.name": "control-1", "UpdateControlServerRequest.name": "control-1", "RemoveControlServerRequest.name": "control-1",
	"Problem.type": "urn:commandcenter:problem:heartbeat_stale", "Problem.title": "The agent was not heard lately", "Problem.reason": "HEARTBEAT_STALE",
	"Problem.instance": "urn:commandcenter:request:" + exampleID, "Problem.detail": "BM-AMS-01 is on Service Bus and was last heard 5m ago; nothing was sent",
}

// leftOut are fields that an example does not show: what the If-Match header carries, and what excludes another field.
var leftOut = []string{"etag", "WindowRule.ends", "WindowRule.start_at", "WindowRule.end_at", "UpdateAffinityGroupRequest.name", "SetMaintenanceRequest.duration", "SyncPackagesRequest.wanted", "BatchRelinkAgentsRequest.all"}

// example is a message with every field filled, as JSON. Of a oneof it has the field of the given index.
func example(of protoreflect.MessageDescriptor, input bool, without []string, chosen int) any {
	message := fill(of, input, without, chosen, 0)
	text, err := protojson.MarshalOptions{EmitDefaultValues: !input}.Marshal(message)
	if err != nil {
		panic(err) // a message that was just made
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		panic(err)
	}
	return value
}

func fill(of protoreflect.MessageDescriptor, input bool, without []string, chosen, depth int) proto.Message {
	message := dynamicpb.NewMessage(of)
	switch of.FullName() {
	case "google.protobuf.Timestamp":
		seconds := int64(1774747800) // 2026-03-29T01:30:00Z
		if input {
			seconds = 4078431000 // 2099-03-29T01:30:00Z: what is planned lies ahead
		}
		message.Set(of.Fields().ByName("seconds"), protoreflect.ValueOfInt64(seconds))
		return message
	case "google.protobuf.Duration":
		message.Set(of.Fields().ByName("seconds"), protoreflect.ValueOfInt64(5400))
		return message
	}
	for i := range of.Fields().Len() {
		field := of.Fields().Get(i)
		skip := slices.Contains(without, string(field.Name())) || slices.Contains(leftOut, string(of.Name())+"."+string(field.Name())) ||
			(input && slices.Contains(leftOut, string(field.Name()))) || depth > 5 && field.Message() != nil
		if oneof := field.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() && oneof.Fields().Get(min(chosen, oneof.Fields().Len()-1)) != field {
			skip = true
		}
		if skip || field.IsMap() {
			continue
		}
		value := exampleOf(field, input, depth)
		if !field.IsList() {
			message.Set(field, value)
		} else if text, isText := value.Interface().(string); !isText || text != "" {
			message.Mutable(field).List().Append(value)
		}
	}
	return message
}

// exampleOf is an example of one value of a field.
func exampleOf(field protoreflect.FieldDescriptor, input bool, depth int) protoreflect.Value {
	rules := rulesOf(field)
	switch field.Kind() {
	case protoreflect.MessageKind:
		return protoreflect.ValueOfMessage(fill(field.Message(), input, nil, 0, depth+1).ProtoReflect())
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(field.Enum().Values().Get(min(1, field.Enum().Values().Len()-1)).Number())
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(exampleText(field))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("example"))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(0.5)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(0.5)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(7)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(7)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(7)
	default:
		if field.Name() == "page_size" {
			return protoreflect.ValueOfInt32(100)
		}
		return protoreflect.ValueOfInt32(max(1, rules.GetInt32().GetGte()))
	}
}

func exampleText(field protoreflect.FieldDescriptor) string {
	name := string(field.Name())
	if text, found := exampleTexts[string(field.ContainingMessage().Name())+"."+name]; found {
		return text
	}
	if text, found := exampleTexts[name]; found {
		return text
	}
	return "text"
}
