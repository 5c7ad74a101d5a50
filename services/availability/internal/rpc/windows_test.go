package rpc

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/windows"
	"github.com/commandcenter/fleet/services/internal/fault"
)

func oneOff(startAt, endAt time.Time) *availabilityv1.WindowRule {
	return &availabilityv1.WindowRule{StartAt: timestamppb.New(startAt), EndAt: timestamppb.New(endAt)}
}

func recurring(start, zone, rule string, duration time.Duration) *availabilityv1.WindowRule {
	return &availabilityv1.WindowRule{Start: start, Zone: zone, Rule: rule, Duration: durationpb.New(duration)}
}

func (s *service) create(t *testing.T, server string, rule *availabilityv1.WindowRule) (*availabilityv1.MaintenanceWindow, error) {
	t.Helper()
	response, err := s.CreateMaintenanceWindow(t.Context(), &availabilityv1.CreateMaintenanceWindowRequest{Server: server, Rule: rule, Reason: "patches", Actor: "alice"})
	return response.GetWindow(), err
}

func (s *service) windows(t *testing.T, server string) []*availabilityv1.MaintenanceWindow {
	t.Helper()
	response, err := s.ListMaintenanceWindows(t.Context(), &availabilityv1.ListMaintenanceWindowsRequest{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	return response.GetWindows()
}

func TestWindowsAreMadeShownAndDeleted(t *testing.T) {
	s := serve(t, "BM-1", "BM-2")
	now := time.Now().UTC().Truncate(time.Millisecond)
	current, err := s.create(t, "bm-1", oneOff(now.Add(-time.Hour), now.Add(time.Hour).Add(time.Microsecond)))
	if err != nil || current.GetId() == 0 || current.GetReason() != "patches" || current.GetCreatedBy() != "alice" || current.GetCreatedAt() == nil || !current.GetActive() {
		t.Fatal(current, err)
	}
	if o := current.GetOccurrences(); len(o) != 1 || !o[0].GetEndAt().AsTime().Equal(now.Add(time.Hour)) || o[0].GetStartLocal() != now.Add(-time.Hour).Format(time.RFC3339Nano) {
		t.Errorf("%v", o)
	}
	rule := recurring("2026-01-01T22:00", "Europe/Amsterdam", "FREQ=WEEKLY;BYDAY=SU", 90*time.Minute)
	weekly, err := s.create(t, "BM-1", rule)
	if err != nil || !proto.Equal(weekly.GetRule(), rule) || len(weekly.GetOccurrences()) != 5 {
		t.Fatal(weekly, err)
	}
	if got := s.windows(t, "BM-1"); len(got) != 2 || got[0].GetId() != current.GetId() || !proto.Equal(got[1].GetRule(), rule) {
		t.Fatalf("%v", got)
	}
	remove := func(server string, id int64) error {
		_, err := s.DeleteMaintenanceWindow(t.Context(), &availabilityv1.DeleteMaintenanceWindowRequest{Server: server, Id: id, Actor: "alice"})
		return err
	}
	refused(t, remove("BM-2", current.GetId()), fault.WindowNotFound, "nothing was changed") // another server's
	refused(t, remove("BM-9", current.GetId()), fault.ServerNotFound, "")
	if err := remove("bm-1", current.GetId()); err != nil {
		t.Fatal(err)
	}
	refused(t, remove("BM-1", current.GetId()), fault.WindowNotFound, "")
	if got := s.maintenance(t, "BM-1"); len(got.GetWindows()) != 1 || got.GetActive() {
		t.Errorf("%v", got)
	}
}

func TestWindowsThatEndedForGoodAreLeftOut(t *testing.T) {
	s := serve(t, "BM-1")
	for _, rule := range []*availabilityv1.WindowRule{
		recurring("2026-01-01T22:00", "UTC", "FREQ=DAILY;COUNT=2", time.Hour), recurring("2026-01-01T22:00", "UTC", "FREQ=DAILY;UNTIL=99980101", time.Hour),
	} {
		// What is refused as past today was not when it was made.
		w, occurs, err := parseRule(rule)
		if err != nil {
			t.Fatal(err)
		}
		last, _ := occurs.LastEnd()
		s.run(t, `INSERT INTO TblMaintenanceWindow (ServerKey, StartLocal, Zone, RRule, DurationMs, Reason, CreatedBy, CreatedAt, LastEndAt) VALUES (1, ?, ?, ?, ?, '', '', '2026-01-01T00:00:00.000Z', ?)`,
			w.Start, w.Zone, w.Rule, w.Duration.Milliseconds(), last.Format("2006-01-02T15:04:05.000Z"))
	}
	if got := s.windows(t, "BM-1"); len(got) != 1 || got[0].GetRule().GetRule() != "FREQ=DAILY;UNTIL=99980101" {
		t.Errorf("%v", got)
	}
}

// One window whose zone is not known any more hides no other, and says what is wrong with it.
func TestAWindowThatIsNoLongerUnderstoodIsShownSo(t *testing.T) {
	s := serve(t, "BM-1")
	s.run(t, `INSERT INTO TblMaintenanceWindow (ServerKey, StartLocal, Zone, RRule, DurationMs, Reason, CreatedBy, CreatedAt) VALUES (1, '2026-01-01T00:00', 'Mars/Olympus', 'FREQ=DAILY', 3600000, 'r', 'a', '2026-01-01T00:00:00.000Z')`)
	if _, err := s.create(t, "BM-1", recurring("2026-01-01T00:00", "UTC", "FREQ=DAILY", 24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	got := s.maintenance(t, "BM-1")
	broken, well := got.GetWindows()[0], got.GetWindows()[1]
	if want := "is no longer understood, and never occurs: zone: must be an IANA time zone as that database spells it, such as Europe/Amsterdam or UTC; delete it, and make it again"; broken.GetProblem() != want {
		t.Errorf("says %q", broken.GetProblem())
	}
	if broken.GetActive() || len(broken.GetOccurrences()) != 0 || broken.GetRule().GetZone() != "Mars/Olympus" {
		t.Errorf("%v", broken)
	}
	if well.GetProblem() != "" || !well.GetActive() || !got.GetActive() {
		t.Errorf("%v", well)
	}
}

func TestAPreviewShowsTheNextFiveInZoneAndUTC(t *testing.T) {
	s := serve(t, "BM-1")
	preview := func(rule *availabilityv1.WindowRule) ([]*availabilityv1.Occurrence, error) {
		response, err := s.PreviewMaintenanceWindow(t.Context(), &availabilityv1.PreviewMaintenanceWindowRequest{Server: "bm-1", Rule: rule})
		return response.GetOccurrences(), err
	}
	// 2097-03-31 is the Sunday on which Amsterdam's clocks go from 02:00 to 03:00, by the rule known today.
	got, err := preview(recurring("2097-03-30T02:30", "Europe/Amsterdam", "FREQ=DAILY", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	want := "[2097-03-30T02:30:00+01:00 2097-03-31T03:30:00+02:00 2097-04-01T02:30:00+02:00 2097-04-02T02:30:00+02:00 2097-04-03T02:30:00+02:00]"
	var locals []string
	for _, o := range got {
		locals = append(locals, o.GetStartLocal())
		if local, err := time.Parse(time.RFC3339, o.GetStartLocal()); err != nil || !local.Equal(o.GetStartAt().AsTime()) || o.GetEndAt().AsTime().Sub(o.GetStartAt().AsTime()) != time.Hour {
			t.Errorf("%v", o)
		}
	}
	if fmt.Sprint(locals) != want || got[1].GetEndLocal() != "2097-03-31T04:30:00+02:00" {
		t.Errorf("%v", got)
	}
	now := time.Now().UTC()
	inProgress, err := preview(recurring(now.AddDate(0, 0, -1).Format("2006-01-02T15:04"), "UTC", "FREQ=DAILY", 2*time.Hour))
	if err != nil || len(inProgress) != 5 || inProgress[0].GetStartAt().AsTime().After(now) || !inProgress[1].GetStartAt().AsTime().After(now) {
		t.Errorf("one in progress comes first: %v %v", inProgress, err)
	}
	if past, err := preview(recurring("2026-01-01T00:00", "UTC", "FREQ=DAILY;COUNT=1", time.Hour)); err != nil || len(past) != 0 {
		t.Errorf("what lies behind occurs no more: %v %v", past, err)
	}
	if len(s.windows(t, "BM-1")) != 0 {
		t.Error("a preview stored something")
	}
	_, err = s.PreviewMaintenanceWindow(t.Context(), &availabilityv1.PreviewMaintenanceWindowRequest{Server: "BM-9", Rule: oneOff(noon, noon.Add(time.Hour))})
	refused(t, err, fault.ServerNotFound, "BM-9")
}

// For who plans "until six" the end is six, and the preview says how long that is when the clocks are changed.
func TestAPreviewShowsTheEndByTheWallAndWhatElapses(t *testing.T) {
	s := serve(t, "BM-1")
	// 2097-03-31 is the Sunday on which Amsterdam's clocks go from 02:00 to 03:00, by the rule known today.
	night := &availabilityv1.WindowRule{Start: "2097-03-30T00:00", Zone: "Europe/Amsterdam", Rule: "RRULE:FREQ=DAILY;COUNT=2", Ends: "06:00"}
	preview, err := s.PreviewMaintenanceWindow(t.Context(), &availabilityv1.PreviewMaintenanceWindowRequest{Server: "BM-1", Rule: night})
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.create(t, "BM-1", night)
	if err != nil || made.GetRule().GetEnds() != "06:00" || made.GetRule().GetDuration() != nil || made.GetRule().GetRule() != "FREQ=DAILY;COUNT=2" {
		t.Fatal(made, err)
	}
	for _, shown := range [][]*availabilityv1.Occurrence{preview.GetOccurrences(), s.windows(t, "BM-1")[0].GetOccurrences()} {
		var got []string
		for _, o := range shown {
			got = append(got, fmt.Sprint(o.GetEndLocal(), " ", o.GetDuration().AsDuration(), " ", o.GetWallDuration().AsDuration()))
		}
		if want := "[2097-03-30T06:00:00+01:00 6h0m0s 6h0m0s 2097-03-31T06:00:00+02:00 5h0m0s 6h0m0s]"; fmt.Sprint(got) != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

func TestAWindowIsMadeOnceUnderAnIdempotencyKey(t *testing.T) {
	s := serve(t, "BM-1")
	request := &availabilityv1.CreateMaintenanceWindowRequest{
		Server: "BM-1", Rule: recurring("2097-01-01T22:00", "UTC", "FREQ=DAILY", time.Hour), Reason: "patches", Actor: "alice", IdempotencyKey: "6F1D1C5E-0000-4000-8000-000000000001",
	}
	first, err := s.CreateMaintenanceWindow(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	request.IdempotencyKey = "6f1d1c5e-0000-4000-8000-000000000001"
	if again, err := s.CreateMaintenanceWindow(t.Context(), request); err != nil || !proto.Equal(again, first) || len(s.windows(t, "BM-1")) != 1 {
		t.Errorf("%v\nis not\n%v: %v", again, first, err)
	}
	request.Reason = "others"
	_, err = s.CreateMaintenanceWindow(t.Context(), request)
	refused(t, err, fault.IdempotencyKeyReused, "nothing was changed")
	request.Reason = "patches"
	if _, err := s.DeleteMaintenanceWindow(t.Context(), &availabilityv1.DeleteMaintenanceWindowRequest{Server: "BM-1", Id: first.GetWindow().GetId(), Actor: "alice"}); err != nil {
		t.Fatal(err)
	}
	_, err = s.CreateMaintenanceWindow(t.Context(), request)
	refused(t, err, fault.WindowNotFound, "deleted since")
	for _, key := range []string{"night", "6f1d1c5e000040008000000000000001"} {
		request.IdempotencyKey = key
		_, err = s.CreateMaintenanceWindow(t.Context(), request)
		invalid(t, err, "/idempotencyKey", "UUID")
	}
}

func TestI17_AWindowIsRefusedByField(t *testing.T) {
	s := serve(t, "BM-1")
	s.run(t, `INSERT INTO TblServer (Name, Type) VALUES ('Web', 'Other')`)
	now := time.Now()
	start, zone, rule := "2097-01-01T02:30", "Europe/Amsterdam", "FREQ=DAILY"
	for name, c := range map[string]struct {
		rule          *availabilityv1.WindowRule
		pointer, says string
	}{
		"none":                     {nil, "/rule", ""},
		"empty":                    {&availabilityv1.WindowRule{}, "/rule", "is empty: give startAt and endAt"},
		"both":                     {&availabilityv1.WindowRule{StartAt: timestamppb.New(now), EndAt: timestamppb.New(now.Add(time.Hour)), Zone: zone}, "/rule", "is both"},
		"no start":                 {&availabilityv1.WindowRule{EndAt: timestamppb.New(now)}, "/rule/startAt", "is required"},
		"no end":                   {&availabilityv1.WindowRule{StartAt: timestamppb.New(now)}, "/rule/endAt", "is required"},
		"no instant":               {&availabilityv1.WindowRule{StartAt: &timestamppb.Timestamp{Nanos: -1}, EndAt: timestamppb.New(now)}, "/rule/startAt", "must be an instant"},
		"before 1970":              {oneOff(time.Unix(-1, 0), now), "/rule/startAt", "1970"},
		"end before start":         {oneOff(now.Add(time.Hour), now), "/rule/endAt", "must be after start"},
		"same millisecond":         {oneOff(noon, noon.Add(time.Microsecond)), "/rule/endAt", "must be after start"},
		"over 7 days":              {oneOff(now, now.Add(windows.MaxDuration+time.Millisecond)), "/rule/endAt", "at most 7 days"},
		"past":                     {oneOff(now.Add(-2*time.Hour), now.Add(-time.Hour)), "/rule/endAt", "must lie ahead"},
		"no wall time":             {recurring("", zone, rule, time.Hour), "/rule/start", "wall time"},
		"wall time with zone":      {recurring(start+"Z", zone, rule, time.Hour), "/rule/start", "without zone"},
		"no zone":                  {recurring(start, "", rule, time.Hour), "/rule/zone", "IANA"},
		"unknown zone":             {recurring(start, "Mars/Olympus", rule, time.Hour), "/rule/zone", "IANA"},
		"no rule":                  {recurring(start, zone, "", time.Hour), "/rule/rule", "is required"},
		"unsupported rule":         {recurring(start, zone, "FREQ=YEARLY", time.Hour), "/rule/rule", "FREQ"},
		"never":                    {recurring(start, zone, "FREQ=DAILY;UNTIL=20200101", time.Hour), "/rule/rule", "never occurs"},
		"past recurrence":          {recurring("2026-01-01T02:30", zone, "FREQ=DAILY;COUNT=3", time.Hour), "/rule/rule", "must lie ahead"},
		"the host's zone":          {recurring(start, "localtime", rule, time.Hour), "/rule/zone", "IANA"},
		"zone with leap seconds":   {recurring(start, "right/UTC", rule, time.Hour), "/rule/zone", "IANA"},
		"end and duration":         {&availabilityv1.WindowRule{Start: start, Zone: zone, Rule: rule, Ends: "06:00", Duration: durationpb.New(time.Hour)}, "/rule/ends", "cannot be combined"},
		"no clock":                 {&availabilityv1.WindowRule{Start: start, Zone: zone, Rule: rule, Ends: "six"}, "/rule/ends", "06:00"},
		"only an end":              {&availabilityv1.WindowRule{Ends: "06:00"}, "/rule/rule", "is required"},
		"no duration":              {&availabilityv1.WindowRule{Start: start, Zone: zone, Rule: rule}, "/rule/duration", "over 0"},
		"duration of a nanosecond": {recurring(start, zone, rule, 1), "/rule/duration", "over 0"},
		"long duration":            {recurring(start, zone, rule, windows.MaxDuration+time.Millisecond), "/rule/duration", "7 days"},
		"endless duration":         {&availabilityv1.WindowRule{Start: start, Zone: zone, Rule: rule, Duration: &durationpb.Duration{Seconds: 1 << 60}}, "/rule/duration", "7 days"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.create(t, "BM-1", c.rule)
			invalid(t, err, c.pointer, c.says)
			if c.says == "must lie ahead" {
				return // it may be looked at
			}
			_, err = s.PreviewMaintenanceWindow(t.Context(), &availabilityv1.PreviewMaintenanceWindowRequest{Server: "BM-1", Rule: c.rule})
			invalid(t, err, c.pointer, c.says)
		})
	}
	_, err := s.CreateMaintenanceWindow(t.Context(), &availabilityv1.CreateMaintenanceWindowRequest{Server: "BM-1", Rule: oneOff(now, now.Add(time.Hour)), Reason: " ", Actor: "a"})
	invalid(t, err, "/reason", "must say why")
	_, err = s.create(t, "Web", oneOff(now, now.Add(time.Hour)))
	invalid(t, err, "/server", "only BenefitManager")
	if len(s.windows(t, "BM-1")) != 0 {
		t.Error("a refused window is stored")
	}
}

// The longest window there may be is read back as it was taken, whatever is cut off below the millisecond.
func TestTheLongestWindowIsUnderstoodAfterwards(t *testing.T) {
	s := serve(t, "BM-1")
	start := time.Now().UTC().Truncate(time.Millisecond).Add(999 * time.Microsecond)
	if made, err := s.create(t, "BM-1", oneOff(start, start.Add(windows.MaxDuration))); err != nil || made.GetProblem() != "" {
		t.Error(made, err)
	}
	if got := s.windows(t, "BM-1"); len(got) != 1 || got[0].GetProblem() != "" {
		t.Errorf("%v", got)
	}
}

func TestAServerHasSoManyWindows(t *testing.T) {
	s := serve(t, "BM-1")
	start := time.Now().Add(time.Hour)
	for range 100 {
		if _, err := s.create(t, "BM-1", oneOff(start, start.Add(time.Hour))); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.create(t, "BM-1", oneOff(start, start.Add(time.Hour)))
	refused(t, err, fault.TooManyWindows, "delete one first")
	if got := len(s.windows(t, "BM-1")); got != 100 {
		t.Errorf("%d windows", got)
	}
}
