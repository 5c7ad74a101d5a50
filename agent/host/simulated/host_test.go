package simulated_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/commandcenter/fleet/agent/host"
	"github.com/commandcenter/fleet/agent/host/simulated"
	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func machine() *simulated.Host {
	return simulated.New("BM-1", simulated.Options{StartDuration: 4 * time.Second, StopDuration: 3 * time.Second, WorkDuration: time.Second})
}

func status(t *testing.T, h *simulated.Host, name string) *agentv1.Service {
	t.Helper()
	services, err := h.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(services, func(s *agentv1.Service) bool { return s.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %s", name)
	}
	return services[i]
}

func words(changes []*agentv1.Change) string {
	var all []string
	for _, c := range changes {
		all = append(all, fmt.Sprintf("%s: %s > %s", c.GetSubject(), c.GetBefore(), c.GetAfter()))
	}
	return strings.Join(all, "; ")
}

func TestServicesTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := machine()
		before := status(t, h, "Spooler")
		began := time.Now()
		done := make(chan string, 1)
		go func() {
			changes, err := h.RestartService(t.Context(), "SPOOLER")
			done <- fmt.Sprint(words(changes), err)
		}()
		synctest.Wait()
		if s := status(t, h, "Spooler"); s.GetStatus() != agentv1.ServiceStatus_SERVICE_STATUS_STOP_PENDING {
			t.Error("on its way down it is", s.GetStatus())
		}
		time.Sleep(4 * time.Second) // fake
		if s := status(t, h, "Spooler"); s.GetStatus() != agentv1.ServiceStatus_SERVICE_STATUS_START_PENDING || s.GetPid() != 0 {
			t.Error("on its way up it is", s)
		}
		if got := <-done; got != "service Spooler: RUNNING > STOPPED; service Spooler: STOPPED > RUNNING<nil>" {
			t.Error(got)
		}
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("a restart took %s", took)
		}
		if after := status(t, h, "Spooler"); after.GetPid() == 0 || after.GetPid() == before.GetPid() {
			t.Error("it has no new process id")
		}
		if changes, err := h.StartService(t.Context(), "Spooler"); err != nil || len(changes) != 0 {
			t.Error("starting what runs changed", words(changes), err)
		}
	})
}

func TestHangingAndReleasedServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := machine()
		h.Hang("Spooler")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		changes, err := h.StopService(ctx, "Spooler")
		var failure *host.FailedError
		if !errors.As(err, &failure) || !errors.Is(err, context.DeadlineExceeded) || words(changes) != "service Spooler: RUNNING > STOP_PENDING" {
			t.Error(words(changes), err)
		}
		h.Release("Spooler")
		if s := status(t, h, "Spooler"); s.GetStatus() != agentv1.ServiceStatus_SERVICE_STATUS_STOPPED {
			t.Error("released, it is", s.GetStatus()) // Windows goes on though nobody waits
		}
	})
}

func TestFailuresOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, denied := machine(), errors.New("access denied")
		for name, do := range map[string]func() error{
			"Spooler":          func() error { _, err := h.StopService(t.Context(), "Spooler"); return err },
			"DefaultAppPool":   func() error { _, err := h.RecycleAppPool(t.Context(), "DefaultAppPool"); return err },
			"benefit-reports":  func() error { _, err := h.Uninstall(t.Context(), "benefit-reports"); return err },
			"Benefits.Reports": func() error { _, err := h.SyncPackages(t.Context(), nil); return err },
		} {
			h.Fail(strings.ToUpper(name), denied)
			if err := do(); !errors.Is(err, denied) {
				t.Errorf("%s: %v", name, err)
			}
			h.Fail(name, nil)
			if err := do(); err != nil {
				t.Errorf("%s afterwards: %v", name, err)
			}
		}
		for what, err := range map[string]error{
			"service":          second(h.StartService(t.Context(), "none")),
			"application pool": second(h.StartAppPool(t.Context(), "none")),
			"installation":     second(h.Uninstall(t.Context(), "none")),
		} {
			var unknown *host.NotFoundError
			if !errors.As(err, &unknown) || unknown.Kind != what || unknown.Name != "none" {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestPoolsAndProducts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := machine()
		changes, err := h.RecycleAppPool(t.Context(), "benefitmanager")
		if err != nil || words(changes) != "application pool BenefitManager: Started > Stopped; application pool BenefitManager: Stopped > Started" {
			t.Error(words(changes), err)
		}
		if changes, err = h.StartAppPool(t.Context(), "Legacy.Classic"); err != nil || len(changes) != 1 {
			t.Error(words(changes), err)
		}
		changes, err = h.Uninstall(t.Context(), "SQL-ODBC-17")
		if err != nil || !strings.HasPrefix(words(changes), "installation sql-odbc-17: Microsoft ODBC") {
			t.Error(words(changes), err)
		}
		if left, err := h.Installations(t.Context()); err != nil || len(left) != 3 {
			t.Error(left, err)
		}
	})
}

func TestPackagesAreBroughtToTheSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := machine()
		first, err := h.SyncPackages(t.Context(), []*agentv1.Package{
			{Id: "benefits.web", Version: "9.0.0"}, {Id: "New", Version: "1"}, {Id: "new", Version: "2"}, {Id: "Benefits.Rules", Version: "2026.10.0"},
		})
		if err != nil || len(first) != 3 || !strings.HasSuffix(words(first), "> 9.0.0; package New:  > 1; package Benefits.Legacy: 1.0.3 > ") {
			t.Error(words(first), err)
		}
		configured, err := h.SyncPackages(t.Context(), nil)
		if err != nil || len(configured) != 3 { // web back, reports installed, new removed
			t.Error(words(configured), err)
		}
		if again, err := h.SyncPackages(t.Context(), nil); err != nil || len(again) != 0 {
			t.Error("a set that is there was changed:", words(again), err)
		}
	})
}

func TestTheSameSeedAndNameGiveTheSameHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holds := func(name string, seed uint64) string {
			h := simulated.New(name, simulated.Options{Seed: seed})
			certificates, _ := h.Certificates(t.Context())
			installations, _ := h.Installations(t.Context())
			services, _ := h.Services(t.Context())
			bindings, _ := h.Bindings(t.Context())
			return fmt.Sprint(certificates, installations, services, bindings)
		}
		if holds("BM-1", 1) != holds("BM-1", 1) || holds("BM-1", 1) == holds("BM-1", 2) || holds("BM-1", 1) == holds("BM-2", 1) {
			t.Error("what a host holds does not follow from its seed and name")
		}
	})
}

func TestWhatIsReadIsACopy(t *testing.T) {
	h := machine()
	certificates, _ := h.Certificates(t.Context())
	want := proto.Clone(certificates[0])
	certificates[0].Subject = "CN=Mallory"
	if again, _ := h.Certificates(t.Context()); !proto.Equal(again[0], want) {
		t.Error("a reader changed the host")
	}
	var expired, bound int
	for _, c := range certificates {
		if c.GetNotAfter().AsTime().Before(time.Now()) {
			expired++
		}
		bound += len(c.GetBoundSites())
	}
	if expired != 1 || bound != 3 {
		t.Errorf("%d expired certificates, %d bound sites", expired, bound)
	}
}
