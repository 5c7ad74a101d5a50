package rpc

import (
	"testing"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// An agent that takes its commands over HTTP has no receiver on the bus that could be dead.
func TestOnlyAgentsOnTheBusAreSuspect(t *testing.T) {
	dead := &registryv1.CommandReceiver{Unanswered: 2, Suspect: true}
	for name, row := range map[string]struct {
		agent *registryv1.Agent
		want  bool
	}{
		"on the bus":        {&registryv1.Agent{OnServiceBus: true, CommandReceiver: dead}, true},
		"on HTTP":           {&registryv1.Agent{HttpBaseUrl: "http://bm.example.test", CommandReceiver: dead}, false},
		"answers":           {&registryv1.Agent{OnServiceBus: true, CommandReceiver: &registryv1.CommandReceiver{Unanswered: 1}}, false},
		"was never sent to": {&registryv1.Agent{OnServiceBus: true}, false},
	} {
		if got := receiverSuspect(row.agent); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
