package servicebusemulator

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestExampleConfig(t *testing.T) {
	cfg, err := LoadConfig("examples/Config.json")
	if err != nil {
		t.Fatal(err)
	}
	e, err := cfg.entities()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"agent-state": "commandcenter", "agent-commands": "agents", "agent-replies": "gateways"}
	for _, topic := range e.topics {
		s := topic.Subscriptions[0]
		if want[topic.Name] != s.Name || s.LockDuration != time.Minute || s.MaxDeliveryCount != 10 ||
			s.RequiresSession != (topic.Name != "agent-state") || s.DeadLetterOnExpiration {
			t.Errorf("%s: %+v", topic.Name, s)
		}
		if topic.Name == "agent-replies" && s.DefaultTTL != 5*time.Minute {
			t.Errorf("replies live for %s", s.DefaultTTL)
		}
	}
	if len(e.topics) != 3 {
		t.Errorf("%d topics", len(e.topics))
	}
}

// The shape, with every setting, that Microsoft documents for its emulator, less what is not supported yet.
const documented = `{ "UserConfig": { "Namespaces": [ { "Name": "sbemulatorns",
  "Queues": [ { "Name": "queue.1", "Properties": {
    "DeadLetteringOnMessageExpiration": false, "DefaultMessageTimeToLive": "PT1H",
    "DuplicateDetectionHistoryTimeWindow": "PT20S", "ForwardDeadLetteredMessagesTo": "", "ForwardTo": "",
    "LockDuration": "PT1M", "MaxDeliveryCount": 3, "RequiresDuplicateDetection": false, "RequiresSession": false } } ],
  "Topics": [ { "Name": "topic.1",
    "Properties": { "DefaultMessageTimeToLive": "PT1H", "DuplicateDetectionHistoryTimeWindow": "PT20S",
      "RequiresDuplicateDetection": false },
    "Subscriptions": [ { "Name": "subscription.1",
      "Properties": { "DeadLetteringOnMessageExpiration": false, "DefaultMessageTimeToLive": "PT1H", "LockDuration": "PT1M",
        "MaxDeliveryCount": 3, "ForwardDeadLetteredMessagesTo": "", "ForwardTo": "", "RequiresSession": false },
      "Rules": [ { "Name": "app-prop-filter-1", "Properties": { "FilterType": "Correlation",
        "CorrelationFilter": { "ContentType": "application/text", "CorrelationId": "id1", "Label": "subject1",
          "MessageId": "msgid1", "ReplyTo": "someQueue", "ReplyToSessionId": "sessionId", "SessionId": "session1", "To": "xyz" } } },
        { "Name": "user-prop-filter-1", "Properties": { "FilterType": "Sql",
          "SqlFilter": { "SqlExpression": "sys.MessageId = '123456' AND userProp1 = 'value1'" },
          "Action": { "SqlExpression": "SET sys.To = 'Entity'" } } } ]
    } ] } ] } ], "Logging": { "Type": "File" } } }`

func TestDocumentedConfig(t *testing.T) {
	if _, err := ParseConfig([]byte(documented)); err != nil {
		t.Error(err)
	}
}

func TestCommentsAndTrailingCommas(t *testing.T) {
	cfg, err := ParseConfig([]byte(`{ // one
		/* two, // three */ "UserConfig": { "Namespaces": [ { "Name": "a//b/*c*/\",}", }, /* , */ ], } // ,
	}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.UserConfig.Namespaces[0].Name; got != `a//b/*c*/",}` {
		t.Errorf("name %q", got)
	}
}

func TestConfigIsRefusedByName(t *testing.T) {
	topic := func(inside string) string {
		return `{"UserConfig":{"Namespaces":[{"Topics":[{"Name":"t",` + inside + `}]}]}}`
	}
	subscription := func(inside string) string {
		return topic(`"Subscriptions":[{"Name":"s",` + inside + `}]`)
	}
	for _, c := range []struct{ config, names string }{
		{`{`, "unexpected EOF"},
		{`{} {}`, "after the end"},
		{"{\n\"UserConfig\": 5}", "line 2"},
		{`{"UserConfig":{}}`, "UserConfig.Namespaces"},
		{`{"UserConfig":{"Namespaces":[{},{}]}}`, "UserConfig.Namespaces"},
		{`/* no end`, "comment"},
		{topic(`"Nonsense":1`), "Nonsense"},
		{topic(`"Properties":{"Nonsense":1}`), "Nonsense"},
		{topic(`"Properties":{"MaxSizeInMegabytes":-1}`), "Topics[0].Properties.MaxSizeInMegabytes"},
		{topic(`"Properties":{"MaxMessageSizeInKilobytes":1000000}`), "MaxMessageSizeInKilobytes"},
		{topic(`"Properties":{"DefaultMessageTimeToLive":"1h"}`), "1h"},
		{topic(`"Properties":{"DefaultMessageTimeToLive":5}`), "duration 5"},
		{topic(`"Properties":{"RequiresDuplicateDetection":true,"DuplicateDetectionHistoryTimeWindow":"PT19S"}`), "Topics[0].Properties.DuplicateDetectionHistoryTimeWindow"},
		{topic(`"Properties":{"AutoDeleteOnIdle":"PT4M"}`), "Topics[0].Properties.AutoDeleteOnIdle"},
		{subscription(`"Properties":{"AutoDeleteOnIdle":"PT4M"}`), "Subscriptions[0].Properties.AutoDeleteOnIdle"},
		{subscription(`"Properties":{"RequiresSession":true,"ForwardTo":"x"}`), "RequiresSession"},
		{subscription(`"Properties":{"ForwardTo":"T"}`), "own topic"},
		{`{"UserConfig":{"Namespaces":[{"Queues":[{"Name":"q","Properties":{"ForwardDeadLetteredMessagesTo":"Q"}}]}]}}`, "itself"},
		{subscription(`"Properties":{"LockDuration":"PT6M"}`), "Subscriptions[0].Properties.LockDuration"},
		{subscription(`"Properties":{"MaxDeliveryCount":-1}`), "MaxDeliveryCount"},
		{subscription(`"Properties":{"ForwardTo":"x"}`), "Subscriptions[0].Properties.ForwardTo"},
		{subscription(`"Properties":{"ForwardDeadLetteredMessagesTo":"x"}`), "ForwardDeadLetteredMessagesTo"},
		{subscription(`"Rules":[{"Name":"r","Properties":{"FilterType":"Sql"}}]`), "Rules[0].Properties.SqlFilter"},
		{subscription(`"Rules":[{"Name":"r","Properties":{"FilterType":"Sql","SqlFilter":{"SqlExpression":"a = = 1"}}}]`), "Rules[0].Properties.SqlFilter.SqlExpression: position 5"},
		{subscription(`"Rules":[{"Name":"r","Properties":{"FilterType":"Sql","SqlFilter":{"SqlExpression":"a = @p","Parameters":{"p":[]}}}}]`), "position 5: the parameter @p"},
		{subscription(`"Rules":[{"Name":"r","Properties":{"FilterType":"Sql","SqlFilter":{"SqlExpression":"1=1"},"CorrelationFilter":{}}}]`), "Rules[0].Properties.CorrelationFilter"},
		{subscription(`"Rules":[{"Name":"r","Properties":{"FilterType":"True","SqlFilter":{"SqlExpression":"1=1"}}}]`), "Rules[0].Properties.SqlFilter"},
		{subscription(`"Rules":[{"Name":"r","Properties":{"FilterType":"True","Action":{}}}]`), "Rules[0].Properties.Action.SqlExpression: position 1"},
		{subscription(`"Rules":[{"Name":"r","Properties":{"FilterType":"x"}}]`), "FilterType"},
		{subscription(`"Rules":[{"Name":"r","Properties":{"FilterType":"Correlation"}}]`), "CorrelationFilter"},
		{subscription(`"Rules":[{"Name":"r","Properties":{"FilterType":"Correlation","CorrelationFilter":{}}}]`), "CorrelationFilter"},
		{subscription(`"Rules":[{"Name":"r","Properties":{"FilterType":"Correlation","CorrelationFilter":{"Properties":{"p":[]}}}}]`), "Properties.p"},
		{subscription(`"Rules":[{"Name":"","Properties":{"FilterType":"True"}}]`), "Rules[0].Name"},
		{topic(`"Subscriptions":[{"Name":"s"},{"Name":"S"}]`), "t/Subscriptions/S"},
		{topic(`"Subscriptions":[{"Name":"a/b"}]`), "slash"},
		{`{"UserConfig":{"Namespaces":[{"Topics":[{"Name":"t"}],"Queues":[{"Name":"T"}]}]}}`, `"T"`},
		{`{"UserConfig":{"Namespaces":[{"Topics":[{"Name":"$t"}]}]}}`, "Topics[0].Name"},
	} {
		_, err := ParseConfig([]byte(c.config))
		if err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s\nanswers %v\nwhich should name %s", c.config, err, c.names)
		}
	}
	if _, err := LoadConfig("examples/missing.json"); !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("a missing file answers %v", err)
	}
}

func unwrapAll(err error) error {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		if os.IsNotExist(err) {
			return err
		}
		err = inner.Unwrap()
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"PT0S": 0, "PT1M": time.Minute, "PT1H30M": 90 * time.Minute, "P1DT2H3M4.5S": 26*time.Hour + 3*time.Minute + 4500*time.Millisecond,
		"P14D": 14 * 24 * time.Hour, "P1W": 7 * 24 * time.Hour, "P10675199DT2H48M5.4775807S": 1<<63 - 1, "PT0.001S": time.Millisecond,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "P", "PT", "1M", "PT1", "P1M", "P1Y", "PT1S1M", "PT-1S", "PT1.2.3S", "PT1MT", "P1DT", "PT1M ", "-PT1M"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
	var d Duration
	data, err := Duration(90 * time.Second).MarshalJSON()
	if err != nil || d.UnmarshalJSON(data) != nil || d != Duration(90*time.Second) {
		t.Errorf("%s, %v, %v", data, err, d)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(documented))
	f.Add([]byte(`{/**/"UserConfig":{"Namespaces":[{"Topics":[{"Name":"t",}]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := ParseConfig(data)
		if err != nil {
			return
		}
		if _, err := cfg.entities(); err != nil {
			t.Error(err)
		}
	})
}
