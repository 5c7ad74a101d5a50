package agent_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/commandcenter/fleet/agent"
	"github.com/commandcenter/fleet/agent/host/simulated"
)

// A minimal agent: its machine, here a simulated one, and the transports it is reached over. A real one is usually on
// Service Bus, too:
//
//	bus, err := agent.NewBus(agent.BusConfig{ConnectionString: secret})
//	...
//	agent.Config{…, Bus: bus}
func ExampleNew() {
	a, err := agent.New(agent.Config{
		Name: "BM-0042",
		Host: simulated.New("BM-0042", simulated.Options{}),
		HTTP: &agent.HTTPConfig{Listen: "127.0.0.1:0"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()

	response, err := http.Post(a.HTTPBaseURL()+"/agent/v1/commands", "application/json", strings.NewReader(`{
		"commandId": "3f0e9c2a-6f3b-4b53-9f6d-4f7a4c8d1b11",
		"targetAgent": "bm-0042",
		"budget": "60s",
		"stopService": {"service": "Spooler"}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	body, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	fmt.Println(response.Status, strings.Contains(string(body), "OUTCOME_SUCCEEDED"))

	stop()
	fmt.Println(<-ended)
	// Output:
	// 200 OK true
	// <nil>
}
