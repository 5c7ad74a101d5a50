package verdict

import (
	"testing"
	"time"
)

func TestASkewIsShownOnceItMattersAndNotWithEachMeasurement(t *testing.T) {
	const second = time.Second
	behind := Skew{-60 * second, 100 * time.Millisecond}
	for name, c := range map[string]struct{ measured, before, want Skew }{
		"none":                     {},
		"the clocks agree":         {Skew{2 * second, 0}, Skew{}, Skew{}},
		"it may be nothing":        {Skew{7 * second, 3 * second}, Skew{}, Skew{}},
		"behind":                   {behind, Skew{}, behind},
		"measured again":           {Skew{-60500 * time.Millisecond, second / 2}, behind, behind},
		"it grew":                  {Skew{-70 * second, second / 2}, behind, Skew{-70 * second, second / 2}},
		"set right":                {Skew{second, second / 2}, behind, Skew{}},
		"ahead instead of behind":  {Skew{60 * second, second}, behind, Skew{60 * second, second}},
		"no consumer measures now": {Skew{}, behind, Skew{}},
	} {
		if got := c.measured.Shown(c.before); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
