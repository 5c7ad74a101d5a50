package fault_test

import (
	"testing"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
)

func TestChoicesLeaveOutWhatStandsForNothing(t *testing.T) {
	if got, want := fault.Choices(availabilityv1.Holding(0).Descriptor()), "HOLDING_FROZEN or HOLDING_BRAKED"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if got, want := fault.Choices(availabilityv1.Mode(0).Descriptor()), "MODE_OFF, MODE_OBSERVE or MODE_OWN"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}
