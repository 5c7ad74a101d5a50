package local

import (
	"io"
	"text/template"
)

// description is short on purpose: who starts the system for the first time reads ten lines, and deploy/TRY.md has the rest.
var description = template.Must(template.New("local").Parse(`
The fleet runs on loopback: {{.Agents}}, {{.ControlServers}}.{{if not .Found.Nothing}} Found {{.Found}} of an earlier run.{{end}}

<<<<<<< HEAD
  REST        {{.REST}}            (API description: {{.REST}}/openapi.json)
  metrics     {{range $service, $address := .Metrics}}http://{{$address}}/metrics ({{$service}})  {{end}}
  database    {{.Database}}
  log         {{.Log}}
  Service Bus {{.Bus}}

Try, in another terminal:

  curl -s {{.REST}}/api/agents                                        # agents that take commands
  curl -s {{.REST}}/api/agents/bm-ams-01/services                     # read over Service Bus; any case will do
  curl -s -X POST {{.REST}}/api/agents/BM-AMS-01/services/W3SVC/restart
  curl -s -X POST {{.REST}}/api/agents/BM-QA-03/iis/app-pools/BenefitManager/recycle   # over HTTP
  curl -s {{.REST}}/api/agents/BM-QA-03/commands/COMMAND_ID                       # what became of a command
  curl -sN -d '{"agents":["BM-AMS-01","BM-QA-03"],"startService":{"service":"W3SVC"}}' {{.REST}}/api/agents:batch
  curl -s {{.REST}}/api/agents/BM-UTR-02/route                        # which transport, and why
  curl -s '{{.REST}}/api/config/agents?states=REGISTRATION_STATE_PENDING'   # BM-NEW-04 waits for a decision
  curl -s {{.REST}}/api/config/agents/BM-NEW-04/url-proposals

  etag=$(curl -sI {{.REST}}/api/config/agents/BM-NEW-04 | awk 'tolower($1) == "etag:" {print $2}' | tr -d '\r"')
  curl -s -X POST -H "If-Match: $etag" -d '{"createServer":{"url":"https://new-04.example.test"}}' \
       {{.REST}}/api/config/agents/BM-NEW-04:accept

  curl -s {{.REST}}/api/availability/servers                          # which servers are available, and why
  curl -s {{.REST}}/api/availability/overview                         # what is frozen, braked or else unusual
  curl -sN {{.REST}}/api/availability:watch                           # each change as it happens; Ctrl-C ends it
  curl -s {{.REST}}/api/config/servers/BM-OLD-05/offline-log

  maintenance={{.REST}}/api/config/servers/BM-AMS-02/maintenance
  etag=$(curl -sI $maintenance | awk 'tolower($1) == "etag:" {print $2}' | tr -d '\r"')
  curl -s -X PUT -H "If-Match: $etag" -d '{"reason":"new disks"}' $maintenance      # offline at once; commands still reach it
  etag=$(curl -sI $maintenance | awk 'tolower($1) == "etag:" {print $2}' | tr -d '\r"')
  curl -s -X DELETE -H "If-Match: $etag" $maintenance                               # and back
  curl -s -d '{"rule":{"start":"2027-03-28T02:30","zone":"Europe/Amsterdam","rule":"FREQ=WEEKLY;BYDAY=SU","duration":"5400s"}}' \
       $maintenance-windows:preview                                                # when it would be; without :preview, with a reason, it is saved
  curl -s $maintenance-windows

  curl -s {{.REST}}/api/config/control-servers                         # direct agents, such as BM-EDGE-06, fail over between these
  curl -s {{.REST}}/api/config/agents/BM-EDGE-06/failover-list         # in this order
  curl -s {{.REST}}/api/config/partition-events                        # when and why agents were spread anew

BM-OLD-05 has gone silent: 90 s after its last heartbeat, commands to it are refused as HEARTBEAT_STALE, and its server goes offline.
-availability-replicas 2 starts a second replica, which takes over when the first stops sweeping.
Stop with Ctrl-C; the database stays.
=======
  curl -s {{.REST}}/api/agents                                          # which agents take commands
  curl -s -X POST {{.REST}}/api/agents/BM-AMS-01/services/W3SVC/restart # a command, over Service Bus
  curl -s {{.REST}}/api/agents/BM-UTR-02/route                          # which way the next one takes, and why
  curl -s '{{.REST}}/api/config/agents?states=REGISTRATION_STATE_PENDING' # who waits for a decision
  curl -s {{.REST}}/api/availability/servers                            # which servers are available, and why
>>>>>>> 88bdda7 (One system at a time runs in a folder, and a restart keeps what was there)

More to try: deploy/TRY.md. API: {{.REST}}/openapi.json. Every address: {{.Instance}}. Log: {{.Log}}
Service Bus, for an agent of your own: {{.Bus}}
Ctrl-C stops it and keeps what was decided; make fresh starts from nothing.
`))

// Describe says where the system is and what to try.
func (s *System) Describe(out io.Writer, log string) error {
	agents := 0
	if s.Fleet != nil {
		agents = len(s.Fleet.Names())
	}
	return description.Execute(out, struct {
		*System
		Agents, ControlServers, Log, Instance string
	}{s, counted(agents, "simulated agent"), counted(len(s.ingest), "control server"), log, s.claim.instancePath()})
}
