package rpc

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/fault"
)

func TestServersAreShownAsJudged(t *testing.T) {
	s := serve(t, "BM-1", "BM-2", "BM-3")
	held := judged(1, true, verdict.Unavailable, verdict.HeartbeatSilent)
	held.Held, held.HeldPath, held.Verdict.HeardAt, held.Verdict.Path = verdict.Braked, verdict.Direct, noon.Add(-time.Hour), verdict.Direct
	maintained := judged(2, false, verdict.Available, verdict.HeartbeatFresh)
	maintained.Maintenance, maintained.Verdict.HeardAt = true, noon // which nothing shows: it is not the newest for long
	s.record(t, s.lead(t), verdict.PerPath[store.Path]{}, held, maintained)
	for name, want := range map[string]*availabilityv1.ServerAvailability{
		"bm-1": {
			ServerKey: 1, Server: "BM-1", Online: true, OnlineDecided: true, Verdict: availabilityv1.Verdict_VERDICT_UNAVAILABLE,
			Reason: "heartbeat silent", Detail: "detail of heartbeat silent", Since: timestamppb.New(noon), HeardAt: timestamppb.New(noon.Add(-time.Hour)),
			Holding: availabilityv1.Holding_HOLDING_BRAKED, HeldPath: registryv1.HeartbeatPath_HEARTBEAT_PATH_DIRECT,
			State: registryv1.ServerState_SERVER_STATE_HELD,
		},
		"BM-2": {
			ServerKey: 2, Server: "BM-2", Verdict: availabilityv1.Verdict_VERDICT_AVAILABLE, Reason: "heartbeat fresh",
			Detail: "detail of heartbeat fresh", Since: timestamppb.New(noon), Maintenance: true, State: registryv1.ServerState_SERVER_STATE_MAINTENANCE,
		},
		"BM-3": {ServerKey: 3, Server: "BM-3", Online: true, OnlineDecided: true, State: registryv1.ServerState_SERVER_STATE_UNKNOWN}, // not judged yet
	} {
		got, err := s.GetAvailability(t.Context(), &availabilityv1.GetAvailabilityRequest{Server: name})
		if err != nil || !proto.Equal(got.GetServer(), want) {
			t.Errorf("%s is %v, %v", name, got, err)
		}
	}
}

func TestServersThatCannotBeMeantAreRefused(t *testing.T) {
	s := serve(t, "BM-1", "BM-2", "BM-2")
	s.run(t, `INSERT INTO TblServer (Name, Type) VALUES ('Web', 'Other')`)
	get := func(name string) error {
		_, err := s.GetAvailability(t.Context(), &availabilityv1.GetAvailabilityRequest{Server: name})
		return err
	}
	refused(t, get("BM-9"), fault.ServerNotFound, "BM-9")
	refused(t, get("bm-2"), fault.ServerAmbiguous, "[2 3]")
	invalid(t, get("web"), "/server", "only BenefitManager servers are judged")
	invalid(t, get(""), "/server", "")
}

func TestListsFilterAndPage(t *testing.T) {
	s := serve(t, "BM-1", "BM-2", "BM-3", "BM-4", "BM-5")
	held := judged(1, true, verdict.Unavailable, verdict.HeartbeatSilent)
	held.Held = verdict.Frozen
	maintained := judged(2, false, verdict.Unknown, verdict.NeverHeard)
	maintained.Maintenance = true
	s.record(t, s.lead(t), verdict.PerPath[store.Path]{}, held, maintained, judged(3, true, verdict.Available, verdict.HeartbeatFresh))
	s.run(t, `UPDATE TblServer SET Online = 0 WHERE ServerKey = 3`)
	yes, no := proto.Bool(true), proto.Bool(false)
	for name, c := range map[string]struct {
		request *availabilityv1.ListAvailabilityRequest
		want    string
	}{
		"all":            {&availabilityv1.ListAvailabilityRequest{}, "[1 2 3 4 5]"},
		"keys":           {&availabilityv1.ListAvailabilityRequest{ServerKeys: []int64{5, 2, 99}}, "[2 5]"},
		"available":      {&availabilityv1.ListAvailabilityRequest{Verdicts: []availabilityv1.Verdict{availabilityv1.Verdict_VERDICT_AVAILABLE}}, "[3]"},
		"two verdicts":   {&availabilityv1.ListAvailabilityRequest{Verdicts: []availabilityv1.Verdict{availabilityv1.Verdict_VERDICT_UNAVAILABLE, availabilityv1.Verdict_VERDICT_UNKNOWN}}, "[1 2]"},
		"held":           {&availabilityv1.ListAvailabilityRequest{Held: yes}, "[1]"},
		"in maintenance": {&availabilityv1.ListAvailabilityRequest{Maintenance: yes}, "[2]"},
		"not maintained": {&availabilityv1.ListAvailabilityRequest{Maintenance: no, Held: no}, "[3 4 5]"},
		"disagrees":      {&availabilityv1.ListAvailabilityRequest{Disagrees: yes}, "[3]"},
		"online":         {&availabilityv1.ListAvailabilityRequest{States: []registryv1.ServerState{registryv1.ServerState_SERVER_STATE_ONLINE}}, "[]"},
		"state held":     {&availabilityv1.ListAvailabilityRequest{States: []registryv1.ServerState{registryv1.ServerState_SERVER_STATE_HELD}}, "[1]"},
		"state offline, unknown": {&availabilityv1.ListAvailabilityRequest{States: []registryv1.ServerState{
			registryv1.ServerState_SERVER_STATE_OFFLINE, registryv1.ServerState_SERVER_STATE_UNKNOWN,
		}}, "[3 4 5]"},
		"name": {&availabilityv1.ListAvailabilityRequest{Query: "m-4"}, "[4]"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int32{0, 1, 2} {
				c.request.PageSize = size
				if got := s.keys(t, c.request); got != c.want {
					t.Errorf("pages of %d: %s, want %s", size, got, c.want)
				}
			}
		})
	}
}

// keys lists all pages of a question.
func (s *service) keys(t *testing.T, question *availabilityv1.ListAvailabilityRequest) string {
	t.Helper()
	request := proto.CloneOf(question)
	keys := []int64{}
	for {
		page, err := s.ListAvailability(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		for _, server := range page.GetServers() {
			keys = append(keys, server.GetServerKey())
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return fmt.Sprint(keys)
		}
	}
}

func TestI17_PageTokensBelongToTheirQuestion(t *testing.T) {
	s := serve(t, "BM-1", "BM-2")
	page, err := s.ListAvailability(t.Context(), &availabilityv1.ListAvailabilityRequest{PageSize: 1})
	if err != nil || page.GetNextPageToken() == "" {
		t.Fatal(page, err)
	}
	for name, request := range map[string]*availabilityv1.ListAvailabilityRequest{
		"another filter": {PageToken: page.GetNextPageToken(), Query: "bm"},
		"another order":  {PageToken: page.GetNextPageToken(), OrderBy: "name"},
		"the other way":  {PageToken: page.GetNextPageToken(), OrderBy: "key desc"},
		"another key":    {PageToken: page.GetNextPageToken(), ServerKeys: []int64{1}},
		"no token":       {PageToken: "!!"},
		"nonsense":       {PageToken: "AAAA"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.ListAvailability(t.Context(), request)
			invalid(t, err, "/pageToken", "is not a page token of this list")
		})
	}
	_, err = s.ListOfflineLog(t.Context(), &availabilityv1.ListOfflineLogRequest{Server: "BM-1", PageToken: page.GetNextPageToken()})
	invalid(t, err, "/pageToken", "is not a page token of this list")
	if page, err = s.ListAvailability(t.Context(), &availabilityv1.ListAvailabilityRequest{PageSize: 7, PageToken: page.GetNextPageToken()}); err != nil || len(page.GetServers()) != 1 {
		t.Errorf("the size of a page is no part of the question: %v %v", page, err)
	}
}

func TestI17_OrdersThatAreNoneNameThoseThereAre(t *testing.T) {
	s := serve(t, "BM-1")
	_, err := s.ListAvailability(t.Context(), &availabilityv1.ListAvailabilityRequest{OrderBy: "colour"})
	invalid(t, err, "/orderBy", "must be one of key, name, verdict, since")
	_, err = s.ListOfflineLog(t.Context(), &availabilityv1.ListOfflineLogRequest{Server: "BM-1", OrderBy: "name"})
	invalid(t, err, "/orderBy", "must be one of created_at")
	_, err = s.ListMaintenanceWindows(t.Context(), &availabilityv1.ListMaintenanceWindowsRequest{Server: "BM-1", OrderBy: "name"})
	invalid(t, err, "/orderBy", "must be one of created_by, id, next")
}

func TestOfflineLogPagesNewestFirst(t *testing.T) {
	s := serve(t, "BM-1", "BM-2")
	var want []time.Time
	for i := range 7 {
		at := noon.Add(time.Duration(i/3) * time.Minute) // three at one instant
		want = append(want, at)
		s.run(t, `INSERT INTO TblServerOfflineLog (ServerKey, CreateDate) VALUES (1, ?)`, at.Format("2006-01-02T15:04:05.000Z"))
	}
	s.run(t, `INSERT INTO TblServerOfflineLog (ServerKey, CreateDate) VALUES (2, '2026-11-30T12:00:00.000Z')`)
	slices.Reverse(want)
	for _, size := range []int32{0, 1, 2, 3} {
		if got := s.offlineLog(t, &availabilityv1.ListOfflineLogRequest{Server: "bm-1", PageSize: size}); !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("pages of %d: %v", size, got)
		}
		oldest := slices.Clone(want)
		slices.Reverse(oldest)
		if got := s.offlineLog(t, &availabilityv1.ListOfflineLogRequest{Server: "bm-1", PageSize: size, OrderBy: "createdAt"}); !slices.EqualFunc(got, oldest, time.Time.Equal) {
			t.Errorf("oldest first, pages of %d: %v", size, got)
		}
		ranged := &availabilityv1.ListOfflineLogRequest{Server: "bm-1", PageSize: size, StartAt: timestamppb.New(noon.Add(time.Minute)), EndAt: timestamppb.New(noon.Add(2 * time.Minute))}
		if got := s.offlineLog(t, ranged); !slices.EqualFunc(got, want[1:4], time.Time.Equal) {
			t.Errorf("a range, pages of %d: %v", size, got)
		}
	}
	_, err := s.ListOfflineLog(t.Context(), &availabilityv1.ListOfflineLogRequest{Server: "BM-1", StartAt: timestamppb.New(noon), EndAt: timestamppb.New(noon)})
	invalid(t, err, "/endAt", "must be after startAt")
	_, err = s.ListOfflineLog(t.Context(), &availabilityv1.ListOfflineLogRequest{Server: "BM-1", StartAt: &timestamppb.Timestamp{Nanos: -1}})
	invalid(t, err, "/startAt", "must be an instant")
	_, err = s.ListOfflineLog(t.Context(), &availabilityv1.ListOfflineLogRequest{Server: "BM-9"})
	refused(t, err, fault.ServerNotFound, "BM-9")
}

func (s *service) offlineLog(t *testing.T, request *availabilityv1.ListOfflineLogRequest) []time.Time {
	t.Helper()
	var entries []time.Time
	for {
		page, err := s.ListOfflineLog(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range page.GetEntries() {
			entries = append(entries, entry.GetCreatedAt().AsTime())
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return entries
		}
	}
}
