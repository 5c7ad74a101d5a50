package atom_test

import (
	"encoding/xml"
	"io"
	"net/http"
	"strings"
	"testing"
)

const queueEntry = `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">` +
	`<QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">%</QueueDescription></content></entry>`

func TestBadRequests(t *testing.T) {
	server, _ := serve(t, nil)
	queue := func(inside string) string { return strings.Replace(queueEntry, "%", inside, 1) }
	for _, c := range []struct {
		method, path, body string
		status             int
		names              string
	}{
		{"PUT", "/q", "", 400, "Atom entry"},
		{"PUT", "/q", "<entry>", 400, "Atom entry"},
		{"PUT", "/q", "<feed/>", 400, "Atom entry"},
		{"PUT", "/q", "<entry/>", 400, "QueueDescription"},
		{"PUT", "/q", `<!DOCTYPE x [<!ENTITY e "e">]><entry><title>&e;</title></entry>`, 400, "Atom entry"},
		{"PUT", "/q", queue("<RequiresSession>maybe</RequiresSession>"), 400, "RequiresSession"},
		{"PUT", "/q", queue("<MaxDeliveryCount>ten</MaxDeliveryCount>"), 400, "MaxDeliveryCount"},
		{"PUT", "/q", strings.Repeat("x", 1<<20+1), 413, "1048576"},
		{"PUT", "/q", queue("<!--" + strings.Repeat("x", 1<<20-400) + "-->"), 201, ""},
		{"PUT", "/t/Subscriptions/s", queue(""), 400, "another kind"},
		{"PUT", "/$namespaceinfo", queue(""), 405, "PUT"},
		{"POST", "/q", queue(""), 405, "POST"},
		{"DELETE", "/$Resources/queues", "", 405, "DELETE"},
		{"GET", "/$Resources/queues?$skip=-1", "", 400, "$skip"},
		{"GET", "/$Resources/queues?$top=x", "", 400, "$top"},
		{"GET", "/$Resources/queues?$skip=9", "", 200, ""},
		{"GET", "/$Resources/Topics/?$top=0", "", 200, ""},
		{"GET", "/nope", "", 404, "nope"},
		{"GET", "/", "", 400, "name"},
		{"GET", "/a%00b", "", 400, "name"},
		{"GET", "/a%FFb", "", 400, "name"},
	} {
		request, err := http.NewRequest(c.method, server.URL+c.path, strings.NewReader(c.body))
		check(t, err)
		response, err := http.DefaultClient.Do(request)
		check(t, err)
		body, err := io.ReadAll(response.Body)
		check(t, err)
		check(t, response.Body.Close())
		if response.StatusCode != c.status || !strings.Contains(string(body), c.names) {
			t.Errorf("%s %s: %d %s", c.method, c.path, response.StatusCode, body)
		}
		var problem struct {
			XMLName xml.Name `xml:"Error"`
			Code    int
		}
		if err := xml.Unmarshal(body, &problem); c.status >= 400 && (err != nil || problem.Code != c.status) {
			t.Errorf("%s %s: %v %+v", c.method, c.path, err, problem)
		}
	}
}
