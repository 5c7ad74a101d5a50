package servicebusemulator

import (
	"io"
	"net/http"
	"testing"
)

func TestAdminServerAndTransport(t *testing.T) {
	server, err := serveAdmin("127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Host+r.URL.EscapedPath()+r.Header.Get("X"))
	}))
	if err != nil {
		t.Fatal(err)
	}
	client := AdminTransport(server.listener.Addr().String())
	request, _ := http.NewRequest(http.MethodGet, "https://ns.example.net/a%2Fb", nil)
	request.Header.Set("X", "x")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || string(body) != "ns.example.net/a%2Fbx" || request.URL.Scheme != "https" {
		t.Errorf("%q, %v, %s", body, err, request.URL)
	}
	client.CloseIdleConnections()
	if err := server.close(); err != nil {
		t.Error(err)
	}
	if _, err := serveAdmin("127.0.0.1:-1", nil); err == nil {
		t.Error("it listens nowhere")
	}
}

func TestListenStaysOnLoopback(t *testing.T) {
	for address, fine := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:0": true, "localhost:5300": true, "0.0.0.0:0": false, ":5300": false, "example.net:1": false, "x": false,
	} {
		if err := checkListen("AdminListen", address, false); (err == nil) != fine {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := checkListen("AdminListen", "0.0.0.0:0", true); err != nil {
		t.Error(err)
	}
}
