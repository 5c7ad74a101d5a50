package bench

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "modernc.org/sqlite" // registers "sqlite"

	"github.com/commandcenter/fleet/deploy/process"
)

// fleetOfServers is a registry and an availability service on one database whose rows are written by hand, so that 100,000
// servers take seconds.
type fleetOfServers struct {
	*system
	db           *sql.DB
	availability *process.Process
	admin        string // of the availability service
}

// newFleetOfServers starts the two; the rows come next.
func newFleetOfServers(ctx context.Context, s *system, settings ...string) (*fleetOfServers, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, "fleet.db")+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return nil, err
	}
	f := &fleetOfServers{system: s, db: db}
	f.availability, f.admin, err = s.addAvailability(ctx, settings...)
	return f, err
}

// addAvailability starts one more replica of the availability service, and returns it with its admin address.
func (s *system) addAvailability(ctx context.Context, settings ...string) (*process.Process, string, error) {
	listen, err := process.FreeAddress()
	if err != nil {
		return nil, "", err
	}
	admin, err := process.FreeAddress()
	if err != nil {
		return nil, "", err
	}
	replica, err := s.launch(ctx, "availability", admin, append([]string{
		"grpc.listen=" + listen, "registry.target=" + s.registryAddress, "mode=own",
		"database.url=sqlite:" + filepath.Join(s.dir, "fleet.db"), "database.migrate=true",
	}, settings...)...)
	return replica, admin, err
}

// numbers is a table of the numbers 1 to a parameter.
const numbers = `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)`

// fill makes servers that are online, each with an accepted agent. They are heard in the far future: fresh for as long as it takes.
func (f *fleetOfServers) fill(ctx context.Context, servers int) error {
	_, err := f.db.ExecContext(ctx, numbers+` INSERT INTO TblServer (Name, Url, Type, Active, Online)
		SELECT printf('BM-%06d', n), 'https://bm.example.test', 'BenefitManager', 1, 1 FROM numbers`, servers)
	if err != nil {
		return err
	}
	_, err = f.db.ExecContext(ctx, `INSERT INTO TblAgent (Name, NameKey, ReportedName, ServerKey, RegistrationState, OnServiceBus, LastBusHeartbeatAt, CreatedAt)
		SELECT Name, LOWER(Name), Name, ServerKey, 2, 1, '2099-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z' FROM TblServer`)
	return err
}

func (f *fleetOfServers) count(ctx context.Context, query string) (n int64, err error) {
	err = f.db.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

// metrics reads the availability service's metrics, each by its name with labels.
func metrics(ctx context.Context, admin string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	found := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if number, err := strconv.ParseFloat(value, 64); ok && err == nil {
			found[name] = number
		}
	}
	return found, lines.Err()
}

// next waits until one more observation of a histogram is there, and returns it.
func next(ctx context.Context, admin, histogram string) (time.Duration, error) {
	before, err := metrics(ctx, admin)
	if err != nil {
		return 0, err
	}
	for {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("no observation of %s: %w", histogram, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
		now, err := metrics(ctx, admin)
		if err != nil {
			return 0, err
		}
		if observed := now[histogram+"_count"] - before[histogram+"_count"]; observed > 0 {
			seconds := (now[histogram+"_sum"] - before[histogram+"_sum"]) / observed
			return time.Duration(seconds * float64(time.Second)), nil
		}
	}
}

const sweepDuration = "commandcenter_availability_sweep_duration_seconds"

// benchSweeps measures sweeps over 10,000 and 100,000 servers.
func (r *Report) benchSweeps(ctx context.Context, s *system) error {
	return r.sweeps(ctx, s, 10_000, 2*time.Second, 0.15, true)
}

func (r *Report) benchLargeSweeps(ctx context.Context, s *system) error {
	return r.sweeps(ctx, s, 100_000, 10*time.Second, 1.5, false)
}

// sweeps measures sweeps in which nothing changes, and one in which 1,000 servers go offline.
func (r *Report) sweeps(ctx context.Context, s *system, servers int, interval time.Duration, target float64, changing bool) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	f, err := newFleetOfServers(ctx, s, "sweepInterval="+interval.String(), "leaseDuration=1m", "probes.timeout=1s")
	if err != nil {
		return err
	}
	defer f.db.Close()
	if err := f.fill(ctx, servers); err != nil {
		return err
	}
	for written := int64(0); written < int64(servers); { // the first sweep writes every status
		if _, err = next(ctx, f.admin, sweepDuration); err == nil {
			written, err = f.count(ctx, "SELECT COUNT(*) FROM TblAvailabilityStatus")
		}
		if err != nil {
			return err
		}
	}
	times, err := f.unchanged(ctx)
	if err != nil {
		return err
	}
	r.Add(Figure{Name: fmt.Sprintf("sweep over %d servers, nothing changed, no row written", servers), Value: median(times).Seconds() * 1000, Unit: "ms", Target: target * 1000})
	if !changing {
		return nil
	}
	took, err := f.changing(ctx, 1000)
	r.Add(Figure{Name: "sweep in which 1,000 of them go offline, one transaction", Value: milliseconds(took), Unit: "ms", Target: 500})
	return err
}

// unchanged measures sweeps, and checks that they write nothing.
func (f *fleetOfServers) unchanged(ctx context.Context) ([]time.Duration, error) {
	const revision = "SELECT Revision FROM TblAvailabilityState"
	before, err := f.count(ctx, revision)
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for range 5 {
		took, err := next(ctx, f.admin, sweepDuration)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
	}
	after, err := f.count(ctx, revision)
	if err == nil && after != before {
		err = fmt.Errorf("sweeps of an unchanged fleet wrote: revision %d, then %d", before, after)
	}
	return times, err
}

// changing rejects agents, which turns their servers offline, and measures that sweep.
func (f *fleetOfServers) changing(ctx context.Context, servers int) (time.Duration, error) {
	if _, err := f.db.ExecContext(ctx, "UPDATE TblAgent SET RegistrationState = 3 WHERE AgentKey <= ?", servers); err != nil {
		return 0, err
	}
	took, err := next(ctx, f.admin, sweepDuration)
	if err != nil {
		return 0, err
	}
	rows, err := f.count(ctx, "SELECT COUNT(*) FROM TblServerOfflineLog")
	if err == nil && rows != int64(servers) {
		err = fmt.Errorf("the offline log has %d rows, expected %d", rows, servers)
	}
	return took, err
}

var errNobody = errors.New("nobody holds the lease")

// benchTakeover measures how long it takes until another replica sweeps after the holder was killed.
func (r *Report) benchTakeover(ctx context.Context, s *system) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	const interval, lease = time.Second, 2 * time.Second
	times := []string{"sweepInterval=" + interval.String(), "leaseDuration=" + lease.String(), "probes.timeout=500ms"}
	holder, admin, err := s.addAvailability(ctx, times...)
	if err != nil {
		return err
	}
	if _, err := next(ctx, admin, sweepDuration); err != nil {
		return errors.Join(errNobody, err)
	}
	_, other, err := s.addAvailability(ctx, times...)
	if err != nil {
		return err
	}
	holder.Kill()
	killedAt := time.Now()
	if _, err := next(ctx, other, sweepDuration); err != nil {
		return errors.Join(errNobody, err)
	}
	r.Add(Figure{
		Name: "lease holder killed → another sweeps (lease 2 s, sweeps 1 s)", Value: time.Since(killedAt).Seconds(), Unit: "s", Target: (lease + interval).Seconds(),
	})
	return nil
}
