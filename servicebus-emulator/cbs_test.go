package servicebusemulator_test

import (
	"errors"
	"testing"

	"github.com/Azure/go-amqp"

	emu "github.com/commandcenter/fleet/servicebus-emulator"
)

// A connection has one sender to $cbs at a time, as in the service.
func TestASecondSenderToCBSIsRefused(t *testing.T) {
	e := start(t, one(emu.SubscriptionProperties{}), emu.Options{})
	connection := must(amqp.Dial(within(t), "amqp://"+e.Addr(), &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()}))(t)
	defer connection.Close()
	session := must(connection.NewSession(within(t), nil))(t)
	first := must(session.NewSender(within(t), "$cbs", nil))(t)
	_, err := session.NewSender(within(t), "$cbs", nil)
	var refused *amqp.Error
	if !errors.As(err, &refused) || refused.Condition != amqp.ErrCondNotAllowed {
		t.Fatalf("a second one: %v", err)
	}
	check(t, first.Close(within(t)))
	must(session.NewSender(within(t), "$cbs", nil))(t)
}
