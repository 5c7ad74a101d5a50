package agent

import (
	"context"

	"github.com/commandcenter/fleet/agent/host"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// operation is one thing that an agent can do, most on its host. It fills in the payload, also of what it had changed before it failed.
type operation struct {
	kind agentv1.OperationKind
	run  func(ctx context.Context, e *executor, into *agentv1.CommandResult) error
}

// write says whether the operation changes the host.
func (o operation) write() bool {
	switch o.kind {
	case agentv1.OperationKind_OPERATION_KIND_LIST_INSTALLATIONS, agentv1.OperationKind_OPERATION_KIND_LIST_SERVICES,
		agentv1.OperationKind_OPERATION_KIND_LIST_APP_POOLS, agentv1.OperationKind_OPERATION_KIND_LIST_CERTIFICATES,
		agentv1.OperationKind_OPERATION_KIND_GET_COMMAND:
		return false
	}
	return true
}

// capabilities are the names of the operations that this version knows.
func capabilities() []string {
	var names []string
	for number := range int32(len(agentv1.OperationKind_name)) {
		if kind := agentv1.OperationKind(number); kind != agentv1.OperationKind_OPERATION_KIND_UNSPECIFIED {
			names = append(names, kind.String())
		}
	}
	return names
}

// operationOf is what the command asks for; its kind is unspecified if the command has no operation.
func operationOf(cmd *agentv1.Command) operation {
	switch op := cmd.GetOperation().(type) {
	case *agentv1.Command_ListInstallations:
		return operation{agentv1.OperationKind_OPERATION_KIND_LIST_INSTALLATIONS, listInstallations}
	case *agentv1.Command_ListServices:
		return operation{agentv1.OperationKind_OPERATION_KIND_LIST_SERVICES, listServices}
	case *agentv1.Command_ListAppPools:
		return operation{agentv1.OperationKind_OPERATION_KIND_LIST_APP_POOLS, listAppPools}
	case *agentv1.Command_ListCertificates:
		return operation{agentv1.OperationKind_OPERATION_KIND_LIST_CERTIFICATES, listCertificates}
	case *agentv1.Command_GetCommand:
		return operation{agentv1.OperationKind_OPERATION_KIND_GET_COMMAND, getCommand(op.GetCommand.GetCommandId())}
	case *agentv1.Command_Uninstall:
		return writing(agentv1.OperationKind_OPERATION_KIND_UNINSTALL, op.Uninstall.GetInstallation(), host.Host.Uninstall)
	case *agentv1.Command_StartService:
		return writing(agentv1.OperationKind_OPERATION_KIND_START_SERVICE, op.StartService.GetService(), host.Host.StartService)
	case *agentv1.Command_StopService:
		return writing(agentv1.OperationKind_OPERATION_KIND_STOP_SERVICE, op.StopService.GetService(), host.Host.StopService)
	case *agentv1.Command_RestartService:
		return writing(agentv1.OperationKind_OPERATION_KIND_RESTART_SERVICE, op.RestartService.GetService(), host.Host.RestartService)
	case *agentv1.Command_StartAppPool:
		return writing(agentv1.OperationKind_OPERATION_KIND_START_APP_POOL, op.StartAppPool.GetPool(), host.Host.StartAppPool)
	case *agentv1.Command_StopAppPool:
		return writing(agentv1.OperationKind_OPERATION_KIND_STOP_APP_POOL, op.StopAppPool.GetPool(), host.Host.StopAppPool)
	case *agentv1.Command_RecycleAppPool:
		return writing(agentv1.OperationKind_OPERATION_KIND_RECYCLE_APP_POOL, op.RecycleAppPool.GetPool(), host.Host.RecycleAppPool)
	case *agentv1.Command_SyncPackages:
		return writing(agentv1.OperationKind_OPERATION_KIND_SYNC_PACKAGES, op.SyncPackages.GetPackages(), host.Host.SyncPackages)
	}
	return operation{}
}

// writing is an operation that answers with what it changed.
func writing[Arg any](
	kind agentv1.OperationKind, arg Arg, do func(host.Host, context.Context, Arg) ([]*agentv1.Change, error),
) operation {
	return operation{kind, func(ctx context.Context, e *executor, into *agentv1.CommandResult) error {
		changes, err := do(e.host, ctx, arg)
		if err == nil || len(changes) > 0 {
			into.Payload = &agentv1.CommandResult_Changes{Changes: &agentv1.Changes{Changes: changes}}
		}
		return err
	}}
}

func listInstallations(ctx context.Context, e *executor, into *agentv1.CommandResult) error {
	found, err := e.host.Installations(ctx)
	into.Payload = &agentv1.CommandResult_Installations{Installations: &agentv1.Installations{Installations: found}}
	return err
}

func listServices(ctx context.Context, e *executor, into *agentv1.CommandResult) error {
	found, err := e.host.Services(ctx)
	into.Payload = &agentv1.CommandResult_Services{Services: &agentv1.Services{Services: found}}
	return err
}

func listAppPools(ctx context.Context, e *executor, into *agentv1.CommandResult) error {
	found, err := e.host.AppPools(ctx)
	into.Payload = &agentv1.CommandResult_AppPools{AppPools: &agentv1.AppPools{AppPools: found}}
	return err
}

func listCertificates(ctx context.Context, e *executor, into *agentv1.CommandResult) error {
	found, err := e.host.Certificates(ctx)
	into.Payload = &agentv1.CommandResult_Certificates{Certificates: &agentv1.Certificates{Certificates: found}}
	return err
}

func getCommand(id string) func(context.Context, *executor, *agentv1.CommandResult) error {
	return func(_ context.Context, e *executor, into *agentv1.CommandResult) error {
		into.Payload = &agentv1.CommandResult_CommandRecord{CommandRecord: e.lookup(id)}
		return nil
	}
}
