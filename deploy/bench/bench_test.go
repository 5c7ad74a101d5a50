package bench

import (
	"strings"
	"testing"
)

func TestOnlyWhatIsNamedIsMeasured(t *testing.T) {
	all := (&Report{}).measurements()
	if chosen, err := choose(all, ""); err != nil || len(chosen) != len(all) {
		t.Errorf("without a name: %d of %d, %v", len(chosen), len(all), err)
	}
	if chosen, err := choose(all, "sweeps"); err != nil || len(chosen) != 1 || chosen[0].name != "sweeps" {
		t.Errorf("by name: %v %v", chosen, err)
	}
	if _, err := choose(all, "sweep"); err == nil || !strings.Contains(err.Error(), "large sweeps") {
		t.Errorf("a name that is none must be refused with the names that there are: %v", err)
	}
}
