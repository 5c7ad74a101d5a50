package partition

import (
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

// List is an agent's failover list by the directory this replica knows, without a look at the database. It is nil if the agent has it
// already, as its etag tells, and while there is no control server: an agent never gets an empty one (I-16).
func (j *Job) List(agent cloud.Agent, etag string) *agentv1.FailoverList {
	directory := j.known()
	current := directory.Etag(agent) + j.pauseEtag()
	if directory.Version == 0 || etag == current {
		return nil
	}
	list := &agentv1.FailoverList{Etag: current, LongestPause: durationpb.New(j.returns.LongestPause)}
	for _, id := range directory.List(agent) {
		server, _ := directory.Server(id)
		grpc, rest := store.Addresses(server.Endpoints)
		list.Servers = append(list.Servers, &agentv1.ControlServerAddress{Name: server.Name, GrpcEndpoint: grpc, RestEndpoint: rest})
	}
	return list
}

// pauseEtag makes the published pause part of a list's etag, so that agents hear of another one with their next heartbeat.
func (j *Job) pauseEtag() string { return fmt.Sprintf("-%d", j.returns.LongestPause.Milliseconds()) }

// Returns are the times within which agents that live are heard again, and which control servers are silent, as of the last look.
func (j *Job) Returns() (cloud.Returns, cloud.Displacement) {
	if displaced := j.displaced.Load(); displaced != nil {
		return j.returns, *displaced
	}
	return j.returns, cloud.Displacement{}
}
