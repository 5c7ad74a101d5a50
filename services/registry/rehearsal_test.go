package registry_test

import (
	"testing"

	"github.com/commandcenter/fleet/services/registry"
)

// A join moves what exact balance needs and no more, and a failure loads all survivors alike.
func TestI16_ARehearsalReachesItsNumbers(t *testing.T) {
	r, err := registry.Rehearse(10_000, 10)
	if err != nil {
		t.Fatal(err)
	}
	if r.Moved != 10_000/11 || r.Rows < r.Moved || r.Worst > 1.05 || r.WorstRoundRobin < 1.7 || r.MovedRoundRobin < 9_000 {
		t.Errorf("%+v", r)
	}
	if _, err := registry.Rehearse(10, 0); err == nil {
		t.Error("no server at all is no cloud")
	}
}
