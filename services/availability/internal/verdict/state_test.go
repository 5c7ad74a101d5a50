package verdict

import "testing"

func TestTheStateIsTheWordAnOperatorWouldUse(t *testing.T) {
	for name, c := range map[string]struct {
		facts Facts
		want  State
	}{
		"not judged":                        {Facts{Online: true}, StateUnknown},
		"heard":                             {Facts{Judged: true, Availability: Available, Online: true}, StateOnline},
		"heard, in maintenance":             {Facts{Judged: true, Availability: Available, Maintenance: true}, StateMaintenance},
		"silent, in maintenance":            {Facts{Judged: true, Availability: Unavailable, Maintenance: true}, StateMaintenance},
		"only observed, in maintenance":     {Facts{Judged: true, Availability: Available, Maintenance: true, Online: true}, StateMaintenance},
		"silent":                            {Facts{Judged: true, Availability: Unavailable}, StateOffline},
		"silent and held":                   {Facts{Judged: true, Availability: Unavailable, Held: true, Online: true}, StateHeld},
		"never had an agent":                {Facts{Judged: true, Online: true}, StateUnknown},
		"heard, and offline by another":     {Facts{Judged: true, Availability: Available}, StateOffline},
		"silent, and online in observation": {Facts{Judged: true, Availability: Unavailable, Online: true}, StateOnline},
	} {
		if got := c.facts.State(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestEveryCodeIsOfOneState(t *testing.T) {
	seen := map[int]int{}
	for _, state := range States() {
		for _, code := range Codes(state) {
			seen[code]++
			if got := FactsOf(code); got.State() != state || got.Judged && got.Code() != code {
				t.Errorf("code %d of state %d stands for %+v", code, state, got)
			}
		}
	}
	for code := range 4 * 8 {
		if seen[code] != 1 {
			t.Errorf("code %d is of %d states", code, seen[code])
		}
	}
}
