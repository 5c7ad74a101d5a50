package conformance

import (
	"errors"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

// What the admin client makes is there at once for the others, and gone when it is deleted.
func TestAdminClientMakesWhatIsThenUsed(t *testing.T) {
	e := start(t, namespace(), emu.Options{AdminListen: "127.0.0.1:0"})
	ctx := t.Context()
	client, err := admin.NewClientFromConnectionString(e.ConnectionString(), &admin.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: emu.AdminTransport(e.AdminAddr())},
	})
	check(t, err)
	// "If the entity does not exist this function will return a nil GetTopicResponse and a nil error."
	if found, err := client.GetTopic(ctx, "made", nil); found != nil || err != nil {
		t.Fatalf("%v, %v", found, err)
	}
	_, err = client.CreateTopic(ctx, "made", nil)
	check(t, err)
	_, err = client.CreateSubscription(ctx, "made", "red", &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{
		LockDuration: to.Ptr("PT30S"), MaxDeliveryCount: to.Ptr(int32(3)),
		DefaultRule: &admin.RuleProperties{Name: "only", Filter: &admin.SQLFilter{Expression: "colour = 'red'"}, Action: &admin.SQLAction{Expression: "SET seen = 1"}},
	}})
	check(t, err)
	var refused *azcore.ResponseError
	if _, err := client.CreateTopic(ctx, "made", nil); !errors.As(err, &refused) || refused.StatusCode != http.StatusConflict {
		t.Errorf("made twice: %v", err)
	}
	shown, err := client.GetSubscription(ctx, "made", "red", nil)
	check(t, err)
	if shown == nil || *shown.LockDuration != "PT30S" || *shown.MaxDeliveryCount != 3 {
		t.Fatalf("%+v", shown)
	}
	bus, err := azservicebus.NewClientFromConnectionString(e.ConnectionString(), nil)
	check(t, err)
	defer bus.Close(ctx) //nolint:errcheck // a test
	sender, err := bus.NewSender("made", nil)
	check(t, err)
	for _, colour := range []string{"red", "blue"} {
		check(t, sender.SendMessage(ctx, &azservicebus.Message{Body: []byte(colour), ApplicationProperties: map[string]any{"colour": colour}}, nil))
	}
	counted, err := client.GetSubscriptionRuntimeProperties(ctx, "made", "red", nil)
	check(t, err)
	if counted.ActiveMessageCount != 1 {
		t.Errorf("%+v", counted.SubscriptionRuntimeProperties)
	}
	receiver, err := bus.NewReceiverForSubscription("made", "red", nil)
	check(t, err)
	got, err := receiver.ReceiveMessages(ctx, 1, nil)
	check(t, err)
	if len(got) != 1 || string(got[0].Body) != "red" || got[0].ApplicationProperties["seen"] == nil {
		t.Errorf("%+v", got)
	}
	var names []string
	for pager := client.NewListSubscriptionsPager("made", nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		check(t, err)
		for _, one := range page.Subscriptions {
			names = append(names, one.SubscriptionName)
		}
	}
	if len(names) != 1 || names[0] != "red" {
		t.Errorf("%v", names)
	}
	_, err = client.DeleteTopic(ctx, "made", nil)
	check(t, err)
	if found, err := client.GetSubscription(ctx, "made", "red", nil); found != nil || err != nil {
		t.Errorf("after its deletion: %v, %v", found, err)
	}
}
