package atom_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
	"github.com/commandcenter/fleet/servicebus-emulator/atom"
	"github.com/commandcenter/fleet/servicebus-emulator/management"
)

const connectionString = "Endpoint=sb://ns.example.net/;SharedAccessKeyName=root;SharedAccessKey=secret"

var ctx = context.Background()

func serve(t testing.TB, keys management.Keys) (*httptest.Server, *fake) {
	t.Helper()
	entities := newFake()
	options := atom.Options{Name: "ns", CreatedAt: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)}
	if len(keys) > 0 {
		options.Authorize = func(token, path string) error {
			claim, err := keys.Verify(token, time.Now())
			if err == nil && !claim.Covers(path, time.Now()) {
				err = errors.New("the token is for another path")
			}
			return err
		}
	}
	server := httptest.NewServer(atom.NewHandler(entities, options))
	t.Cleanup(server.Close)
	return server, entities
}

func clientOf(t testing.TB, server *httptest.Server, connection string) *admin.Client {
	t.Helper()
	transport := emu.AdminTransport(server.Listener.Addr().String())
	t.Cleanup(transport.CloseIdleConnections)
	client, err := admin.NewClientFromConnectionString(connection, &admin.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: transport, Retry: policy.RetryOptions{MaxRetries: -1},
	}})
	check(t, err)
	return client
}

func start(t testing.TB) (*admin.Client, *fake) {
	server, entities := serve(t, nil)
	return clientOf(t, server, connectionString), entities
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t testing.TB, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func refused(t testing.TB, err error, status int, names string) {
	t.Helper()
	var response *azcore.ResponseError
	if !errors.As(err, &response) || response.StatusCode != status || !strings.Contains(err.Error(), names) {
		t.Errorf("status %d naming %q, not: %v", status, names, err)
	}
}

func ptr[T any](v T) *T { return &v }

func status() *admin.EntityStatus { return ptr(admin.EntityStatusActive) }

const never = "P10675199DT2H48M5.4775807S"

func TestQueue(t *testing.T) {
	client, _ := start(t)
	want := admin.QueueProperties{
		LockDuration: ptr("PT1M30S"), MaxSizeInMegabytes: ptr(int32(5)), RequiresDuplicateDetection: ptr(true),
		RequiresSession: ptr(true), DefaultMessageTimeToLive: ptr("P1DT0.5S"), DeadLetteringOnMessageExpiration: ptr(true),
		DuplicateDetectionHistoryTimeWindow: ptr("PT30S"), MaxDeliveryCount: ptr(int32(3)), EnableBatchedOperations: ptr(false),
		Status: status(), AutoDeleteOnIdle: ptr("PT5M"), EnablePartitioning: ptr(true), ForwardTo: ptr("https://ns.example.net/other"),
		ForwardDeadLetteredMessagesTo: ptr("sb://ns.example.net/dead/x"), UserMetadata: ptr("<a>&\"é "),
		MaxMessageSizeInKilobytes: ptr(int64(1024)),
	}
	created, err := client.CreateQueue(ctx, "q", &admin.CreateQueueOptions{Properties: &want})
	check(t, err)
	equal(t, created.QueueProperties, want)
	_, err = client.CreateQueue(ctx, "Q", nil)
	refused(t, err, http.StatusConflict, "40900")

	want.MaxDeliveryCount, want.LockDuration, want.RequiresSession = ptr(int32(4)), nil, nil
	updated, err := client.UpdateQueue(ctx, "q", want, nil)
	check(t, err)
	want.LockDuration, want.RequiresSession = ptr("PT1M"), ptr(true)
	equal(t, updated.QueueProperties, want)
	want.RequiresSession = ptr(false)
	_, err = client.UpdateQueue(ctx, "q", want, nil)
	refused(t, err, http.StatusBadRequest, "RequiresSession")

	runtime, err := client.GetQueueRuntimeProperties(ctx, "q", nil)
	check(t, err)
	at := time.Date(2024, 5, 6, 7, 8, 9, 123456700, time.UTC)
	equal(t, runtime.QueueRuntimeProperties, admin.QueueRuntimeProperties{
		SizeInBytes: 6, TotalMessageCount: 15, ActiveMessageCount: 1, DeadLetterMessageCount: 2, ScheduledMessageCount: 3,
		TransferMessageCount: 4, TransferDeadLetterMessageCount: 5, CreatedAt: at, UpdatedAt: at.Add(time.Hour),
	})
	_, err = client.DeleteQueue(ctx, "q", nil)
	check(t, err)
	_, err = client.DeleteQueue(ctx, "q", nil)
	refused(t, err, http.StatusNotFound, "entity")
}

func TestTopicAndSubscription(t *testing.T) {
	client, _ := start(t)
	topic, err := client.CreateTopic(ctx, "t", nil)
	check(t, err)
	equal(t, topic.TopicProperties, admin.TopicProperties{
		MaxSizeInMegabytes: ptr(int32(256)), RequiresDuplicateDetection: ptr(false), DefaultMessageTimeToLive: ptr(never),
		DuplicateDetectionHistoryTimeWindow: ptr("PT10M"), EnableBatchedOperations: ptr(true), Status: status(),
		AutoDeleteOnIdle: ptr(never), EnablePartitioning: ptr(false), SupportOrdering: ptr(true), MaxMessageSizeInKilobytes: ptr(int64(256)),
	})
	sub, err := client.CreateSubscription(ctx, "t", "s", &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{
		DefaultRule: &admin.RuleProperties{Name: "first", Filter: &admin.FalseFilter{}}, ForwardTo: ptr("plain"),
	}})
	check(t, err)
	want := admin.SubscriptionProperties{
		LockDuration: ptr("PT1M"), RequiresSession: ptr(false), DefaultMessageTimeToLive: ptr(never),
		DeadLetteringOnMessageExpiration: ptr(false), EnableDeadLetteringOnFilterEvaluationExceptions: ptr(false),
		MaxDeliveryCount: ptr(int32(10)), Status: status(), AutoDeleteOnIdle: ptr(never),
		ForwardTo: ptr("https://ns.example.net/plain"), EnableBatchedOperations: ptr(true),
	}
	equal(t, sub.SubscriptionProperties, want)
	want.MaxDeliveryCount = ptr(int32(2))
	_, err = client.UpdateSubscription(ctx, "t", "s", want, nil)
	check(t, err)
	got, err := client.GetSubscription(ctx, "t", "s", nil)
	check(t, err)
	equal(t, got.SubscriptionProperties, want)
	rule, err := client.GetRule(ctx, "t", "s", "first", nil)
	check(t, err)
	equal(t, rule.Filter, &admin.FalseFilter{})

	counts, err := client.GetSubscriptionRuntimeProperties(ctx, "t", "s", nil)
	check(t, err)
	equal(t, []int32{counts.ActiveMessageCount, counts.DeadLetterMessageCount, counts.TransferMessageCount}, []int32{1, 2, 4})
	of, err := client.GetTopicRuntimeProperties(ctx, "t", nil)
	check(t, err)
	equal(t, []int32{of.ScheduledMessageCount, of.SubscriptionCount, of.SQLFilterCount, of.CorrelationFilterCount}, []int32{3, 7, 1, 0})
	topic.TopicProperties.UserMetadata = ptr("note")
	_, err = client.UpdateTopic(ctx, "t", topic.TopicProperties, nil)
	check(t, err)
	_, err = client.DeleteSubscription(ctx, "t", "s", nil)
	check(t, err)
	_, err = client.DeleteTopic(ctx, "t", nil)
	check(t, err)
}

func TestRules(t *testing.T) {
	client, _ := start(t)
	_, err := client.CreateTopic(ctx, "t", nil)
	check(t, err)
	_, err = client.CreateSubscription(ctx, "t", "s", nil)
	check(t, err)
	_, err = client.DeleteRule(ctx, "t", "s", "$Default", nil)
	check(t, err)
	_, err = client.CreateRule(ctx, "t", "s", &admin.CreateRuleOptions{}) // has the default name
	check(t, err)
	values := map[string]any{
		"@s": "<é>", "@b": true, "@i": int64(-5), "@f": 1.5, "@t": time.Date(2024, 1, 2, 3, 4, 5, 6000, time.UTC),
	}
	for name, want := range map[string]admin.RuleProperties{
		"true":  {Filter: &admin.TrueFilter{}},
		"false": {Filter: &admin.FalseFilter{}},
		"sql":   {Filter: &admin.SQLFilter{Expression: "a < @i AND b LIKE 'x&%'", Parameters: values}},
		"action": {
			Filter: &admin.SQLFilter{Expression: "a IS NULL"},
			Action: &admin.SQLAction{Expression: "SET a = @s", Parameters: values},
		},
		"correlation": {Filter: &admin.CorrelationFilter{
			ContentType: ptr("c"), CorrelationID: ptr("i"), MessageID: ptr("m"), ReplyTo: ptr("r"), ReplyToSessionID: ptr("rs"),
			SessionID: ptr("s"), Subject: ptr("su"), To: ptr("t"), ApplicationProperties: values,
		}},
	} {
		_, err := client.CreateRule(ctx, "t", "s", &admin.CreateRuleOptions{Name: &name, Filter: want.Filter, Action: want.Action})
		check(t, err)
		got, err := client.GetRule(ctx, "t", "s", strings.ToUpper(name), nil)
		check(t, err)
		want.Name = name
		equal(t, got.RuleProperties, want)
		_, err = client.CreateRule(ctx, "t", "s", &admin.CreateRuleOptions{Name: &name})
		refused(t, err, http.StatusConflict, name)
	}
	updated, err := client.UpdateRule(ctx, "t", "s", admin.RuleProperties{Name: "sql", Filter: &admin.SQLFilter{Expression: "1=2"}})
	check(t, err)
	equal(t, updated.Filter, &admin.SQLFilter{Expression: "1=2"})
	page, err := client.NewListRulesPager("t", "s", nil).NextPage(ctx)
	check(t, err)
	equal(t, len(page.Rules), 6)

	for _, c := range []struct {
		filter admin.RuleFilter
		names  string
	}{
		{&admin.SQLFilter{Expression: "bad"}, "column 1"},
		{&admin.SQLFilter{}, "SqlExpression"},
		{&admin.CorrelationFilter{}, "CorrelationFilter"},
	} {
		_, err = client.CreateRule(ctx, "t", "s", &admin.CreateRuleOptions{Name: ptr("x"), Filter: c.filter})
		refused(t, err, http.StatusBadRequest, c.names)
	}
	_, err = client.CreateRule(ctx, "t", "nope", &admin.CreateRuleOptions{Name: ptr("x")})
	refused(t, err, http.StatusNotFound, "nope")
	_, err = client.UpdateRule(ctx, "t", "s", admin.RuleProperties{Name: "nope"})
	refused(t, err, http.StatusNotFound, "nope")
}

func TestMissing(t *testing.T) {
	client, _ := start(t)
	queue, err := client.GetQueue(ctx, "x", nil)
	equal(t, []any{queue == nil, err}, []any{true, nil})
	topic, err := client.GetTopicRuntimeProperties(ctx, "x", nil)
	equal(t, []any{topic == nil, err}, []any{true, nil})
	sub, err := client.GetSubscription(ctx, "x", "y", nil)
	equal(t, []any{sub == nil, err}, []any{true, nil})
	rule, err := client.GetRule(ctx, "x", "y", "z", nil)
	equal(t, []any{rule == nil, err}, []any{true, nil})
	_, err = client.UpdateTopic(ctx, "x", admin.TopicProperties{}, nil)
	refused(t, err, http.StatusNotFound, "x")
	_, err = client.CreateSubscription(ctx, "x", "y", nil)
	refused(t, err, http.StatusNotFound, "x/Subscriptions/y")
	_, err = client.NewListSubscriptionsPager("x", nil).NextPage(ctx)
	refused(t, err, http.StatusNotFound, "x")
}

func TestSettingsAreRefusedByName(t *testing.T) {
	client, _ := start(t)
	for names, p := range map[string]admin.QueueProperties{
		"LockDuration":                        {LockDuration: ptr("PT5M1S")},
		"DefaultMessageTimeToLive":            {DefaultMessageTimeToLive: ptr("1h")},
		"MaxDeliveryCount":                    {MaxDeliveryCount: ptr(int32(0))},
		"MaxSizeInMegabytes":                  {MaxSizeInMegabytes: ptr(int32(81921))},
		"MaxMessageSizeInKilobytes":           {MaxMessageSizeInKilobytes: ptr(int64(-1))},
		"AutoDeleteOnIdle":                    {AutoDeleteOnIdle: ptr("PT1M")},
		"DuplicateDetectionHistoryTimeWindow": {DuplicateDetectionHistoryTimeWindow: ptr("P8D")},
		"UserMetadata":                        {UserMetadata: ptr(strings.Repeat("x", 1025))},
		"Status":                              {Status: ptr(admin.EntityStatusDisabled)},
		"ForwardTo":                           {ForwardTo: ptr("sb://%zz")},
		"AuthorizationRules":                  {AuthorizationRules: []admin.AuthorizationRule{{}}},
	} {
		_, err := client.CreateQueue(ctx, "q", &admin.CreateQueueOptions{Properties: &p})
		refused(t, err, http.StatusBadRequest, names)
	}
}

func TestPaging(t *testing.T) {
	client, entities := start(t)
	const n = 250
	check(t, entities.PutTopic("t", atom.Settings{Name: "t"}))
	for i := range n {
		name := fmt.Sprintf("x%03d", i)
		check(t, entities.PutQueue(name, atom.Settings{Name: name}))
		check(t, entities.PutSubscription("t", name, atom.Settings{Name: name}, nil))
	}
	for _, size := range []int32{0, 1, 7, 100, 125, 250, 1000} {
		var names []string
		for pager := client.NewListQueuesPager(&admin.ListQueuesOptions{MaxPageSize: size}); pager.More(); {
			page, err := pager.NextPage(ctx)
			check(t, err)
			for _, q := range page.Queues {
				names = append(names, q.QueueName)
			}
		}
		if len(names) != n || names[0] != "x000" || names[n-1] != "x249" {
			t.Errorf("pages of %d: %d queues", size, len(names))
		}
	}
	subs := 0
	for pager := client.NewListSubscriptionsRuntimePropertiesPager("t", nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		check(t, err)
		subs += len(page.SubscriptionRuntimeProperties)
	}
	equal(t, subs, n)
	topics, err := client.NewListTopicsRuntimePropertiesPager(nil).NextPage(ctx)
	check(t, err)
	equal(t, len(topics.TopicRuntimeProperties), 1)
}

func TestNames(t *testing.T) {
	client, _ := start(t)
	for _, name := range []string{"a/b/c", "a~b", "two words", "größe-日本", "a.b_c-d", "a+b&c=d;e", strings.Repeat("x", 260)} {
		_, err := client.CreateTopic(ctx, name, nil)
		check(t, err)
		got, err := client.GetTopic(ctx, name, nil)
		check(t, err)
		if got == nil || got.TopicName != name {
			t.Fatalf("%q: %+v", name, got)
		}
		_, err = client.CreateSubscription(ctx, name, "s ü~", nil)
		check(t, err)
		page, err := client.NewListSubscriptionsPager(name, nil).NextPage(ctx)
		check(t, err)
		equal(t, page.Subscriptions[0].SubscriptionName, "s ü~")
		_, err = client.CreateRule(ctx, name, "s ü~", &admin.CreateRuleOptions{Name: ptr("r é")})
		check(t, err)
		_, err = client.DeleteRule(ctx, name, "s ü~", "r é", nil)
		check(t, err)
	}
	for _, name := range []string{"a//b", "$x", "a*b", "a@b", strings.Repeat("x", 261)} {
		_, err := client.CreateQueue(ctx, name, nil)
		refused(t, err, http.StatusBadRequest, "name")
	}
	_, err := client.CreateSubscription(ctx, "a~b", strings.Repeat("s", 51), nil)
	refused(t, err, http.StatusBadRequest, "1 to 50")
}

func TestKinds(t *testing.T) {
	client, _ := start(t)
	_, err := client.CreateTopic(ctx, "x", nil)
	check(t, err)
	_, err = client.CreateQueue(ctx, "x", nil)
	refused(t, err, http.StatusConflict, "another kind")
}

func TestTokens(t *testing.T) {
	server, _ := serve(t, management.Keys{"root": "secret"})
	client := clientOf(t, server, "Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=root;SharedAccessKey=secret;UseDevelopmentEmulator=true;")
	_, err := client.CreateTopic(ctx, "Größe 1/x~y", nil)
	check(t, err)
	_, err = client.NewListTopicsPager(nil).NextPage(ctx)
	check(t, err)
	wrong := clientOf(t, server, strings.Replace(connectionString, "=secret", "=other", 1))
	_, err = wrong.GetTopic(ctx, "t", nil)
	refused(t, err, http.StatusUnauthorized, "sig")
	response, err := http.Get(server.URL + "/t")
	check(t, err)
	check(t, response.Body.Close())
	equal(t, response.StatusCode, http.StatusUnauthorized)
}

func TestNamespace(t *testing.T) {
	client, _ := start(t)
	got, err := client.GetNamespaceProperties(ctx, nil)
	check(t, err)
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	equal(t, got.NamespaceProperties, admin.NamespaceProperties{Name: "ns", SKU: "Standard", CreatedTime: at, ModifiedTime: at})
}
