package atom

import (
	"encoding/xml"
	"math"
	"reflect"
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	for _, c := range []struct {
		text    string
		want    time.Duration
		written string // if not as it was
	}{
		{"PT1M", time.Minute, ""},
		{"PT0.0000001S", 100, ""},
		{"P1D", 24 * time.Hour, ""},
		{"P14DT1H2M3.5S", 14*24*time.Hour + time.Hour + 2*time.Minute + 3500*time.Millisecond, ""},
		{"PT90S", 90 * time.Second, "PT1M30S"},
		{"PT36H", 36 * time.Hour, "P1DT12H"},
		{"P2W", 14 * 24 * time.Hour, "P14D"},
		{"PT0.123456789S", 123456789, "PT0.1234567S"},
		{"PT0S", 0, forever},
		{forever, math.MaxInt64, ""},
		{"P999999999999999999D", math.MaxInt64, forever},
	} {
		got, err := ParseDuration(c.text)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v", c.text, got, err)
		}
		if c.written == "" {
			c.written = c.text
		}
		if text := FormatDuration(got); text != c.written {
			t.Errorf("%s is written %s", c.text, text)
		}
	}
	for _, bad := range []string{"", "P", "PT", "P1DT", "1M", "P1M", "P1Y", "-PT1S", "PT1.S", "PT1H1D", "PT1M1M", "pt1m", "PT1S "} {
		if d, err := ParseDuration(bad); err == nil {
			t.Errorf("%q is %v", bad, d)
		}
	}
}

func FuzzDuration(f *testing.F) {
	f.Add("P1W2DT3H4M5.6S")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if d < 0 {
			t.Fatalf("%q is %v", text, d)
		}
		if again, err := ParseDuration(FormatDuration(d)); err != nil || (d >= 100 && d < unlimited && again != d.Truncate(100)) {
			t.Fatalf("%q is %v, written %s, read %v, %v", text, d, FormatDuration(d), again, err)
		}
	})
}

// What was read is read the same when it was written.
func FuzzEntry(f *testing.F) {
	const start, end = `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">`, `</content></entry>`
	f.Add([]byte(start + `<QueueDescription><LockDuration>PT1M</LockDuration><ForwardTo>sb://a/b</ForwardTo></QueueDescription>` + end))
	f.Add([]byte(start + `<TopicDescription><RequiresDuplicateDetection>true</RequiresDuplicateDetection></TopicDescription>` + end))
	f.Add([]byte(start + `<SubscriptionDescription><DefaultRuleDescription><Name>x</Name></DefaultRuleDescription></SubscriptionDescription>` + end))
	f.Add([]byte(start + `<RuleDescription xmlns:p="http://www.w3.org/2001/XMLSchema-instance"><Filter p:type="SqlFilter"><SqlExpression>a=@b` +
		`</SqlExpression><Parameters><KeyValueOfstringanyType><Key>@b</Key><Value p:type="d:int">5</Value></KeyValueOfstringanyType></Parameters>` +
		`</Filter><Action p:type="EmptyRuleAction"/></RuleDescription>` + end))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := readEntry(data)
		if err != nil {
			return
		}
		for kind, d := range map[kind]*description{queues: c.Queue, topics: c.Topic, subscriptions: c.Subscription} {
			if d == nil {
				continue
			}
			if _, err := d.settings(kind, Settings{}); err == nil && d.DefaultRuleDescription != nil {
				_, _ = d.DefaultRuleDescription.rule()
			}
		}
		if c.Rule != nil {
			checkRuleAgain(t, c.Rule)
		}
	})
}

func checkRuleAgain(t *testing.T, x *ruleXML) {
	r, err := x.rule()
	if err != nil {
		return
	}
	data, err := xml.Marshal(entry{Content: content{Rule: describeRule(r, "")}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := readEntry(data)
	if err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	again, err := c.Rule.rule()
	if err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	for _, values := range []map[string]any{r.Filter.SQL.Parameters, r.Filter.Correlation.Properties} {
		for _, v := range values {
			if number, ok := v.(float64); ok && math.IsNaN(number) {
				return // not even equal to itself
			}
		}
	}
	if !reflect.DeepEqual(r.Filter, again.Filter) || r.Name != again.Name {
		t.Fatalf("%+v became %+v", r, again)
	}
}
