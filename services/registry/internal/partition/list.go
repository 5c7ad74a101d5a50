package partition

import (
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// List is an agent's failover list by the directory this replica knows, without a look at the database. It is nil if the agent has it
// already, as its etag tells, and while there is no control server: an agent never gets an empty one (I-16).
func (j *Job) List(agent cloud.Agent, etag string) *agentv1.FailoverList {
	directory := j.known()
	current := directory.Etag(agent)
	if directory.Version == 0 || etag == current {
		return nil
	}
	list := &agentv1.FailoverList{Etag: current}
	for _, id := range directory.List(agent) {
		server, _ := directory.Server(id)
		grpc, rest := store.Addresses(server.Endpoints)
		list.Servers = append(list.Servers, &agentv1.ControlServerAddress{Name: server.Name, GrpcEndpoint: grpc, RestEndpoint: rest})
	}
	return list
}
