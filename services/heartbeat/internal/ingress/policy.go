package ingress

import (
	"time"

	heartbeatv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/heartbeat/v1"
	"github.com/commandcenter/fleet/services/internal/authn"
)

// Policy lets agents call every method; the methods look at what their requests present.
func Policy() authn.Policy {
	agents := []authn.Role{authn.Agent}
	return authn.Policy{
		heartbeatv1.AgentIngress_Register_FullMethodName:        agents,
		heartbeatv1.AgentIngress_Heartbeat_FullMethodName:       agents,
		heartbeatv1.AgentIngress_GetFailoverList_FullMethodName: agents,
		heartbeatv1.AgentIngress_Ping_FullMethodName:            agents,
	}
}

// Quiet names the calls that agents make all the time.
func Quiet() []string {
	return []string{
		heartbeatv1.AgentIngress_Heartbeat_FullMethodName, heartbeatv1.AgentIngress_GetFailoverList_FullMethodName,
		heartbeatv1.AgentIngress_Ping_FullMethodName,
	}
}

// Deadlines are beyond what the methods wait for, so that those say themselves what happened.
func Deadlines() map[string]time.Duration {
	const margin = 3 * time.Second
	return map[string]time.Duration{
		heartbeatv1.AgentIngress_Register_FullMethodName:        answerTimeout + margin,
		heartbeatv1.AgentIngress_Heartbeat_FullMethodName:       answerTimeout + margin,
		heartbeatv1.AgentIngress_GetFailoverList_FullMethodName: listTimeout + margin,
		heartbeatv1.AgentIngress_Ping_FullMethodName:            proofTimeout,
	}
}
