package servicebusemulator_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

// The pages at the administration port show a dead letter with its reason, move it back, and delete what is left.
func TestPagesAtTheAdminPort(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{AdminListen: "127.0.0.1:0"})
	client := connect(t, e)
	sender := must(client.NewSender("t", nil))(t)
	check(t, sender.SendMessage(within(t), &azservicebus.Message{
		Body: []byte("the body"), Subject: ptr("order"), ApplicationProperties: map[string]any{"colour": "red"},
	}, nil))
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	message := receive(t, r, 1)[0]
	check(t, r.DeadLetterMessage(within(t), message, &azservicebus.DeadLetterOptions{Reason: ptr("Invalid"), ErrorDescription: ptr("no total")}))

	base := "http://" + e.AdminAddr()
	get := func(path string) string {
		t.Helper()
		request := must(http.NewRequestWithContext(within(t), http.MethodGet, base+path, nil))(t)
		request.Header.Set("Accept", "text/html,*/*")
		return pageText(t, request)
	}
	for _, want := range []string{"1 dead letters of t/Subscriptions/s", "Entities and their messages"} {
		if page := get("/"); !strings.Contains(page, want) { // it leads to the pages
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
	dead := "t/Subscriptions/s/$DeadLetterQueue"
	for _, want := range []string{"Invalid", "no total", "the body", "order", "colour", "red"} {
		if page := get("/$page/messages?entity=" + url.QueryEscape(dead)); !strings.Contains(page, want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
	order := func(what, entity string) string {
		t.Helper()
		form := url.Values{"entity": {entity}, "sequence": {"all"}}.Encode()
		request := must(http.NewRequestWithContext(within(t), http.MethodPost, base+"/$page/"+what, strings.NewReader(form)))(t)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return pageText(t, request)
	}
	if page := order("move", dead); !strings.Contains(page, "1 moved") {
		t.Error(page)
	}
	again := receive(t, r, 1)[0]
	if string(again.Body) != "the body" || again.DeadLetterReason != nil || again.DeliveryCount != 1 || again.ApplicationProperties["colour"] != "red" {
		t.Errorf("%+v", again)
	}
	if page := order("delete", "t/Subscriptions/s"); !strings.Contains(page, "0 deleted, 1 left as they are") { // it is locked
		t.Error(page)
	}
	check(t, r.AbandonMessage(within(t), again, nil))
	if page := order("delete", "t/Subscriptions/s"); !strings.Contains(page, "1 deleted") {
		t.Error(page)
	}
	if counts := must(e.Counts("t", "s"))(t); counts.Active != 0 || counts.DeadLetter != 0 {
		t.Errorf("%+v", counts)
	}
}

// Samples wait for this before they connect. It needs no key.
func TestHealthAtTheAdminPort(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{AdminListen: "127.0.0.1:0", Keys: map[string]string{"k": "fake"}})
	request := must(http.NewRequestWithContext(within(t), http.MethodGet, "http://"+e.AdminAddr()+"/health", nil))(t)
	if got := strings.TrimSpace(pageText(t, request)); got != `{"status":"healthy"}` {
		t.Error(got)
	}
}

func pageText(t *testing.T, request *http.Request) string {
	t.Helper()
	response := must(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	body := must(io.ReadAll(response.Body))(t)
	http.DefaultClient.CloseIdleConnections()
	return string(body)
}
