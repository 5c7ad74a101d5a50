package local

import (
	"io"
	"text/template"
)

var description = template.Must(template.New("local").Parse(`
The fleet is running on loopback.

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

  etag=$(curl -s {{.REST}}/api/config/agents/BM-NEW-04 | sed 's/.*"etag":"\([^"]*\)".*/\1/')
  curl -s -X POST -H "If-Match: $etag" -d '{"createServer":{"url":"https://new-04.example.test"}}' \
       {{.REST}}/api/config/agents/BM-NEW-04:accept

BM-OLD-05 has gone silent: 90 s after its last heartbeat, commands to it are refused as HEARTBEAT_STALE.
Stop with Ctrl-C; the database stays.

`))

// Describe tells where to look and what to try.
func (s *System) Describe(out io.Writer, log string) error {
	return description.Execute(out, struct {
		*System
		Log string
	}{s, log})
}
