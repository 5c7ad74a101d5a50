package sweep

import (
	"fmt"

	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

var reasons = map[verdict.Reason]string{
	verdict.NeverHeard:          "its agent was never heard, and has no base URL to be probed at",
	verdict.ProbeSucceeded:      "its agent answered the last HTTP probe",
	verdict.AgentRemoved:        "its agent was removed",
	verdict.AgentRejected:       "its agent was rejected",
	verdict.NeverAccepted:       "it never had an accepted agent",
	verdict.AgentAstray:         "the agent of its name is linked to another row of TblServer, or the agent linked here has another name; relink the agent",
	verdict.RegistryUnreachable: "the registry did not answer",
}

// detail says a status in words, for people. Those of maintenance come first, where it is in any. It is stored for as long as the status stays the
// same, so that it holds no instant that grows old.
func detail(s verdict.Status, maintenance string) string {
	text := reasons[s.Verdict.Reason]
	switch s.Verdict.Reason {
	case verdict.HeartbeatFresh:
		text = fmt.Sprintf("its agent is heard over the %s path", s.Verdict.Path)
	case verdict.HeartbeatSilent:
		text = fmt.Sprintf("its agent has been silent for the maximum heartbeat age or longer; it was last heard over the %s path", s.Verdict.Path)
	case verdict.ProbeFailed:
		text = fmt.Sprintf("the last %d HTTP probes failed: %s", verdict.ProbeRounds, s.Verdict.ProbeError)
	case verdict.ProbeUndecided:
		text = "too few rounds of HTTP probes to tell"
		if s.Verdict.ProbeError != "" {
			text += "; the last failure: " + s.Verdict.ProbeError
		}
	}
	if s.Held != verdict.NotHeld {
		text += fmt.Sprintf("; stays online, since the %s path is %s", s.HeldPath, s.Held)
	}
	if s.Maintenance {
		text = maintenance + "; " + text
	}
	return text
}
