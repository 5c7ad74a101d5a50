package servicebusemulator_test

import (
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

func TestSQLRules(t *testing.T) {
	cfg, err := emu.ParseConfig([]byte(`{"UserConfig": {"Namespaces": [{"Name": "n", "Topics": [{"Name": "t", "Subscriptions": [
		{"Name": "s", "Rules": [
			{"Name": "plain", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "priority > 3 AND sys.Label LIKE 'order-%'"}}},
			{"Name": "urgent", "Properties": {"FilterType": "sql",
				"SqlFilter": {"SqlExpression": "priority >= @least", "Parameters": {"@least": 5}},
				"Action": {"SqlExpression": "SET sys.To = @to; SET half = priority / 2; REMOVE secret", "Parameters": {"to": "desk"}}}},
			{"Name": "match", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {"CorrelationId": "c"},
				"Action": {"SqlExpression": "SET sys.TimeToLive = sys.TimeToLive + sys.TimeToLive"}}}]},
		{"Name": "none", "Rules": [{"Name": "r", "Properties": {"FilterType": "False"}}]}]}]}]}}`))
	check(t, err)
	e := start(t, cfg, emu.Options{})
	client := connect(t, e)
	sender := must(client.NewSender("t", nil))(t)
	for _, m := range []*azservicebus.Message{
		{
			Body: []byte("all"), Subject: ptr("order-1"), CorrelationID: ptr("c"), TimeToLive: ptr(time.Hour),
			ApplicationProperties: map[string]any{"Priority": int32(5), "secret": "x"},
		},
		{Body: []byte("none"), Subject: ptr("order-1"), ApplicationProperties: map[string]any{"Priority": "9"}},
		{Body: []byte("plain"), Subject: ptr("order-2"), ApplicationProperties: map[string]any{"Priority": 4.5}},
	} {
		check(t, sender.SendMessage(within(t), m, nil))
	}
	r := must(client.NewReceiverForSubscription("t", "s", nil))(t)
	got := receive(t, r, 4)
	counts(t, e, emu.Counts{Active: 4, Locked: 4})
	var rules []any
	for _, m := range got {
		rules = append(rules, m.ApplicationProperties["RuleName"])
	}
	if !slices.Equal(rules, []any{nil, "urgent", "match", nil}) {
		t.Fatalf("the copies are of %v", rules)
	}
	urgent := got[1]
	if _, ok := urgent.ApplicationProperties["secret"]; ok || *urgent.To != "desk" || urgent.ApplicationProperties["half"] != int64(2) {
		t.Errorf("to %v, %v", *urgent.To, urgent.ApplicationProperties)
	}
	if *got[0].TimeToLive != time.Hour || *got[2].TimeToLive != 2*time.Hour || got[0].To != nil || string(got[3].Body) != "plain" {
		t.Errorf("they live for %s and %s, %q", *got[0].TimeToLive, *got[2].TimeToLive, got[3].Body)
	}
	if n := must(e.Counts("t", "none"))(t); n.Active != 0 {
		t.Errorf("%d messages that no rule selects", n.Active)
	}
}

func TestConfiguredRuleIsAdministeredWithItsParameters(t *testing.T) {
	cfg, err := emu.ParseConfig([]byte(`{"UserConfig": {"Namespaces": [{"Topics": [{"Name": "t", "Subscriptions": [{"Name": "s", "Rules": [
		{"Name": "r", "Properties": {"FilterType": "Sql",
			"SqlFilter": {"SqlExpression": "n = @n", "Parameters": {"@n": 1152921504606846977}},
			"Action": {"SqlExpression": "SET seen = @by", "Parameters": {"@by": "me"}}}},
		{"Name": "c", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {"Properties": {"n": 1152921504606846977, "f": 1.5}}}}
	]}]}]}]}}`))
	check(t, err)
	e := start(t, cfg, emu.Options{AdminListen: "127.0.0.1:0"})
	client := must(admin.NewClientFromConnectionString(e.ConnectionString(), &admin.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: emu.AdminTransport(e.AdminAddr())},
	}))(t)
	r := must(client.GetRule(within(t), "t", "s", "r", nil))(t)
	if by := r.Action.(*admin.SQLAction).Parameters["@by"]; by != "me" {
		t.Errorf("the action's parameter is %v", by)
	}
	must(client.UpdateRule(within(t), "t", "s", r.RuleProperties))(t)
	sender := must(connect(t, e).NewSender("t", nil))(t)
	for _, n := range []int64{1 << 60, 1<<60 + 1} {
		m := text("x")
		m.ApplicationProperties = map[string]any{"n": n, "f": 1.5}
		check(t, sender.SendMessage(within(t), m, nil))
	}
	counts(t, e, emu.Counts{Active: 2}) // of the second message, by each rule
}
