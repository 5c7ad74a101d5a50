package servicebusemulator_test

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

// order calls the endpoint for faults and answers its status and body.
func order(t testing.TB, e *emu.Emulator, method, path, body string) (int, string) {
	t.Helper()
	request := must(http.NewRequestWithContext(within(t), method, "http://"+e.FaultsAddr()+path, strings.NewReader(body)))(t)
	request.Close = true // no connection is kept for later
	response := must(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	return response.StatusCode, strings.TrimSpace(string(must(io.ReadAll(response.Body))(t)))
}

// ordered is order that must succeed with a body.
func ordered(t testing.TB, e *emu.Emulator, method, path, body, want string) {
	t.Helper()
	if status, got := order(t, e, method, path, body); status != http.StatusOK || got != want {
		t.Fatalf("%s %s %s\nanswers %d %s\nwant    200 %s", method, path, body, status, got, want)
	}
}

const none = `{"faults":[]}`

// Each fault that stays on is listed, and ends with the rest.
func TestFaultsOverHTTP(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{FaultsListen: "127.0.0.1:0"})
	ordered(t, e, "GET", "/faults", "", none)
	for _, c := range []struct{ name, body, want string }{
		{"throttle", ``, `{"fault":"throttle","condition":"com.microsoft:server-busy","count":-1}`},
		{"throttle", `{"count":3}`, `{"fault":"throttle","condition":"com.microsoft:server-busy","count":3}`},
		{"reject-sends", `{"entity":"t","condition":"a:b","count":1}`, `{"fault":"reject-sends","entity":"t","condition":"a:b","count":1}`},
		{"refuse-attaches", `{"condition":"a:b"}`, `{"fault":"refuse-attaches","condition":"a:b","count":-1}`},
		{"refuse-auth", `{"count":-1}`, `{"fault":"refuse-auth","condition":"amqp:unauthorized-access","count":-1}`},
		{"lose-answers", `{"count":2}`, `{"fault":"lose-answers","count":2}`},
		{"lose-dispositions", `{"entity":"t/Subscriptions/s"}`, `{"fault":"lose-dispositions","entity":"t/Subscriptions/s","count":-1}`},
		{"delay", `{"delay":"0.25s"}`, `{"fault":"delay","count":-1,"delay":"250ms"}`},
		{"pause-subscription", `{"topic":"t","subscription":"s"}`, `{"fault":"pause-subscription","entity":"t/Subscriptions/s","count":-1}`},
	} {
		ordered(t, e, "POST", "/faults/"+c.name, c.body, `{"faults":[`+c.want+`]}`)
		ordered(t, e, "GET", "/faults", "", `{"faults":[`+c.want+`]}`)
		ordered(t, e, "DELETE", "/faults", "", none)
	}
	ordered(t, e, "POST", "/faults/refuse-auth", `{}`,
		`{"faults":[{"fault":"refuse-auth","condition":"amqp:unauthorized-access","count":-1}]}`)
	ordered(t, e, "POST", "/faults/refuse-auth", `{"count":0}`, none)
}

// What is ordered happens, and ends.
func TestFaultsOverHTTPStrike(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{FaultsListen: "localhost:0"})
	client, ctx := impatient(t, e), within(t)
	sender := must(client.NewSender("t", nil))(t)
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	order(t, e, "POST", "/faults/pause-subscription", `{"topic":"t","subscription":"s"}`)
	check(t, sender.SendMessage(ctx, text("1"), nil))
	unanswered(t, hasActive(t, e, 1), receiving(r))
	ordered(t, e, "DELETE", "/faults", "", none)
	m := receive(t, r, 1)[0]
	ordered(t, e, "GET", "/counts?entity=t/Subscriptions/s&entity=t/Subscriptions/s/$DeadLetterQueue", "",
		`{"t/Subscriptions/s":{"Active":1,"Locked":1,"Scheduled":0,"Deferred":0,"DeadLetter":0},`+
			`"t/Subscriptions/s/$DeadLetterQueue":{"Active":0,"Locked":0,"Scheduled":0,"Deferred":0,"DeadLetter":0}}`)

	ordered(t, e, "POST", "/faults/expire-locks", `{"topic":"t","subscription":"s"}`, none)
	fails(t, r.CompleteMessage(ctx, m, nil), "", azservicebus.CodeLockLost)
	ordered(t, e, "POST", "/faults/detach-links", `{"entity":"t","condition":"amqp:link:detach-forced"}`, `{"links":3}`)
	check(t, sender.SendMessage(ctx, text("2"), nil)) // on a new link
	ordered(t, e, "POST", "/faults/drop-connections", ``, none)
	fails(t, sender.SendMessage(ctx, text("3"), nil), "", azservicebus.CodeConnectionLost)
	check(t, must(connect(t, e).NewSender("t", nil))(t).SendMessage(ctx, text("3"), nil))
}

func TestFaultsOverHTTPAreChecked(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{FaultsListen: "[::1]:0", Listen: "127.0.0.1:0"})
	for _, c := range []struct {
		method, path, body string
		status             int
		field              string
	}{
		{"POST", "/faults/earthquake", ``, 404, ""},
		{"POST", "/faults/throttle", `{"count":-2}`, 400, "count"},
		{"POST", "/faults/throttle", `{"count":"many"}`, 400, "count"},
		{"POST", "/faults/throttle", `{"n":1}`, 400, "n"},
		{"POST", "/faults/throttle", `{"count":1} 2`, 400, ""},
		{"POST", "/faults/throttle", `{"count":`, 400, ""},
		{"POST", "/faults/drop-connections", `{"entity":"t"}`, 400, "entity"},
		{"POST", "/faults/detach-links", `{"entity":"t"}`, 400, "condition"},
		{"POST", "/faults/reject-sends", `{"entity":"x","condition":"a:b"}`, 400, "entity"},
		{"POST", "/faults/reject-sends", `{"entity":7,"condition":"a:b"}`, 400, "entity"},
		{"POST", "/faults/lose-answers", `{"entity":"x"}`, 400, "entity"},
		{"POST", "/faults/delay", `{}`, 400, "delay"},
		{"POST", "/faults/delay", `{"delay":"-1s"}`, 400, "delay"},
		{"POST", "/faults/pause-subscription", `{"topic":"t","subscription":"x"}`, 400, "subscription"},
		{"POST", "/faults/pause-subscription", `{"topic":"t","subscription":"s","paused":1}`, 400, "paused"},
		{"POST", "/faults/expire-locks", ``, 400, "subscription"},
		{"POST", "/faults/throttle", strings.Repeat(" ", 1<<17), 400, ""},
		{"GET", "/counts", ``, 400, "entity"},
		{"GET", "/counts?entity=t", ``, 400, "entity"},
		{"PUT", "/faults", ``, 405, ""},
	} {
		status, body := order(t, e, c.method, c.path, c.body)
		var problem struct{ Field, Error string }
		_ = json.Unmarshal([]byte(body), &problem)
		if status != c.status || problem.Field != c.field || (status != 405 && problem.Error == "") {
			t.Errorf("%s %s %.40s answers %d %s, want %d naming %q", c.method, c.path, c.body, status, body, c.status, c.field)
		}
	}
	if on := e.Faults(); !reflect.DeepEqual(on, []emu.Fault{}) {
		t.Errorf("on: %+v", on)
	}
}

// Neither other machines nor web pages reach it.
func TestFaultsOverHTTPOnLoopbackOnly(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "192.0.2.1:0", "example.com:80", "127.0.0.1"} {
		e, err := emu.Start(one(emu.SubscriptionProperties{}), emu.Options{FaultsListen: address, AllowRemote: true})
		if err == nil {
			_ = e.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "FaultsListen") {
			t.Errorf("%s: %v", address, err)
		}
	}
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{FaultsListen: "127.0.0.1:0"})
	request := must(http.NewRequestWithContext(within(t), "POST", "http://"+e.FaultsAddr()+"/faults/throttle", nil))(t)
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	request.Close = true
	response := must(http.DefaultClient.Do(request))(t)
	if response.Body.Close(); response.StatusCode != http.StatusForbidden {
		t.Errorf("a web page is answered %s", response.Status)
	}
	noneLeft(t, e)
}
