package local

import (
	"fmt"
	"io"
	"path/filepath"
	"text/template"
)

// description is short on purpose: who starts the system for the first time reads ten lines, and deploy/TRY.md has the rest.
var description = template.Must(template.New("local").Parse(`
The fleet runs on loopback: {{.Agents}}, {{.ControlServers}}.{{if not .Found.Nothing}} Found {{.Found}} of an earlier run.{{end}}

  curl -s {{.REST}}/api/agents                                          # which agents take commands
  curl -s -X POST {{.REST}}/api/agents/BM-AMS-01/services/W3SVC/restart # a command, over Service Bus
  curl -s {{.REST}}/api/agents/BM-UTR-02/route                          # which way the next one takes, and why
  curl -s '{{.REST}}/api/config/agents?states=pending'                  # who waits for a decision
  curl -s {{.REST}}/api/availability/servers                            # which servers are available, and why

More to try: deploy/TRY.md. API: {{.REST}}/docs. Every address: {{.Instance}}. Log: {{.Log}}
gRPC: grpcurl -plaintext {{.GRPC}} list
Service Bus, for an agent of your own: {{.Bus}}
Ctrl-C stops it and keeps what was decided; {{.Fresh}} starts from nothing.
`))

// Describe says where the system is and what to try.
func (s *System) Describe(out io.Writer, log string) error {
	agents := 0
	if s.Fleet != nil {
		agents = len(s.Fleet.Names())
	}
	return description.Execute(out, struct {
		*System
		Agents, ControlServers, Log, Instance, Fresh string
	}{s, counted(agents, "simulated agent"), counted(len(s.ingest), "control server"), log, s.claim.instancePath(), fresh(s.claim.dir)})
}

// usualDir is the folder that make run and make fresh take, if they are not told another.
const usualDir = "var"

// fresh is the command that starts from nothing in a folder.
func fresh(dir string) string {
	if filepath.Clean(dir) == usualDir {
		return "make fresh"
	}
	return fmt.Sprintf(`make fresh ARGS="-data %s"`, dir)
}
