package command

import (
	"strings"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// kindOf names a command's operation ("restart_service"), as logs and metrics do.
func kindOf(command *agentv1.Command) string {
	message := command.ProtoReflect()
	field := message.WhichOneof(message.Descriptor().Oneofs().ByName("operation"))
	if field == nil {
		return "unknown"
	}
	return string(field.Name())
}

// isWrite tells commands that change something from those that only read. What is not known to read is taken for a write.
func isWrite(kind string) bool { return !strings.HasPrefix(kind, "list_") }

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
