package command

import (
	"strings"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// Kind names a command's operation ("restart_service"), as logs and metrics do.
func Kind(command *agentv1.Command) string {
	message := command.ProtoReflect()
	field := message.WhichOneof(message.Descriptor().Oneofs().ByName("operation"))
	if field == nil {
		return "unknown"
	}
	return string(field.Name())
}

// isWrite tells commands that change something from those that only read. What is not known to read is taken for a write.
func isWrite(kind string) bool { return payloads[kind] == "" }

// notFound is the reason for what an operation names and the agent does not have.
func notFound(kind string) fault.Reason {
	switch {
	case strings.HasSuffix(kind, "_app_pool"):
		return fault.AppPoolNotFound
	case kind == "uninstall":
		return fault.InstallationNotFound
	}
	return fault.ServiceNotFound
}

// payloads is what each read is answered with. A read without it is no empty list: it is no answer.
var payloads = map[string]string{
	"list_installations": "installations", "list_services": "services", "list_app_pools": "app_pools", "list_certificates": "certificates",
	"get_command": "command_record",
}

// answers tells whether a result that succeeded holds what its operation asks for. A write that changed nothing may say nothing.
func answers(kind string, result *agentv1.CommandResult) bool {
	message := result.ProtoReflect()
	field := message.WhichOneof(message.Descriptor().Oneofs().ByName("payload"))
	if field == nil {
		return isWrite(kind)
	}
	wanted, read := payloads[kind]
	return string(field.Name()) == wanted || !read && field.Name() == "changes"
}
