package rpc

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
	"github.com/commandcenter/fleet/services/internal/authn"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/grpcserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// service is the availability service's RPCs on a real connection, over a real store on a SQLite file.
type service struct {
	availabilityv1.AvailabilityClient
	store      *store.Store
	raw        *sql.DB
	stopFeed   context.CancelFunc
	stopServer context.CancelFunc
	served     chan error
}

func serve(t *testing.T, servers ...string) *service {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.db")
	opened, err := store.Open("sqlite:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := opened.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{store: opened, raw: raw, served: make(chan error, 1)}
	for _, name := range servers {
		s.run(t, `INSERT INTO TblServer (Name, Type, Online) VALUES (?, 'BenefitManager', 1)`, name)
	}
	availability := New(opened, availabilityv1.Mode_MODE_OWN, func() error { return nil }, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	server, err := grpcserver.New(grpcserver.Options{
		Config: grpcserver.ListenConfig{Listen: "127.0.0.1:0"}, Tokens: authn.Local(), Policy: Policy(), Deadlines: Deadlines(),
		Logger: slog.New(slog.DiscardHandler), DrainGrace: time.Hour, // a stop that is held up fails the test by its time
	})
	if err != nil {
		t.Fatal(err)
	}
	availabilityv1.RegisterAvailabilityServer(server.GRPC(), availability)
	feeding, stopFeed := context.WithCancel(context.Background())
	serving, stopServer := context.WithCancel(context.Background())
	s.stopFeed, s.stopServer = stopFeed, stopServer
	fed := make(chan error, 1)
	go func() { fed <- availability.Run(feeding) }()
	go func() { s.served <- server.Run(serving) }()
	connection, err := grpc.NewClient(server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	s.AvailabilityClient = availabilityv1.NewAvailabilityClient(connection)
	t.Cleanup(func() {
		stopFeed()
		stopServer()
		if err := errors.Join(<-fed, <-s.served, connection.Close(), raw.Close(), opened.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *service) run(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := s.raw.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(statement, err)
	}
}

// lead takes the job's lease.
func (s *service) lead(t *testing.T) store.Lease {
	t.Helper()
	lease, taken, err := s.store.TakeLease(t.Context(), "replica-1", time.Hour)
	if err != nil || !taken {
		t.Fatal(lease, taken, err)
	}
	return lease
}

// record is one sweep's writing.
func (s *service) record(t *testing.T, lease store.Lease, paths verdict.PerPath[store.Path], statuses ...verdict.Status) {
	t.Helper()
	sweep := store.Sweep{Token: lease.Token, LeaseDuration: time.Hour, Own: true, Paths: paths}
	for _, status := range statuses {
		sweep.Statuses = append(sweep.Statuses, store.Status{Status: status, Detail: "detail of " + string(status.Verdict.Reason)})
		sweep.Changes = append(sweep.Changes, verdict.Change{Key: status.Key, Online: status.Online, Reason: status.Verdict.Reason})
	}
	if _, err := s.store.Record(t.Context(), sweep); err != nil {
		t.Fatal(err)
	}
}

func judged(key int64, online bool, availability verdict.Availability, reason verdict.Reason) verdict.Status {
	return verdict.Status{Key: key, Online: online, Verdict: verdict.Verdict{Availability: availability, Reason: reason}, Since: noon}
}

// noon is some instant.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// refused expects an error of this reason that says something.
func refused(t *testing.T, err error, reason fault.Reason, says string) *fault.Error {
	t.Helper()
	found := fault.From(err)
	if found == nil || found.Reason != reason || !strings.Contains(fmt.Sprint(found.Detail, found.Fields), says) {
		t.Fatalf("got %v, want %s that says %q", err, reason, says)
	}
	return found
}

// invalid expects an INVALID_ARGUMENT that points at one field.
func invalid(t *testing.T, err error, pointer, says string) {
	t.Helper()
	found := refused(t, err, fault.InvalidArgument, says)
	if len(found.Fields) != 1 || found.Fields[0].Pointer != pointer {
		t.Fatalf("got %v, want one about %s", err, pointer)
	}
}
