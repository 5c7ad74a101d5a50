package partition

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/commandcenter/fleet/services/internal/sqldb/sqldbtest"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

const debounce = 5 * time.Second

// world is a database, which replicas open, and the test by hand. The replicas' clock is the test's; the database's is its own, so that a
// lease grows old by what the test writes.
type world struct {
	t    testing.TB
	url  string
	raw  *sqldbtest.Database
	now  time.Time
	self *store.Cloud
}

func newWorld(t testing.TB, engine sqldbtest.Engine) *world {
	t.Helper()
	raw := engine.Empty(t)
	w := &world{t: t, url: raw.URL, raw: raw, now: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}
	opened := w.open()
	if _, _, err := opened.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.self = opened.Cloud(cloud.DefaultLimits())
	return w
}

func (w *world) open() *store.Store {
	w.t.Helper()
	opened, err := store.Open(w.url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = opened.Close() })
	return opened
}

// replica is the job of one more process, with what it logs and counts.
type replica struct {
	*Job
	w        *world
	registry *prometheus.Registry
	log      *journal
}

// journal is a log that a test may read while it is written.
type journal struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (j *journal) Write(line []byte) (int, error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.text.Write(line)
}

func (j *journal) count(words string) int {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return strings.Count(j.text.String(), words)
}

func (w *world) replica() *replica {
	r := &replica{w: w, registry: prometheus.NewRegistry(), log: &journal{}}
	r.Job = New(w.open().Cloud(cloud.DefaultLimits()), debounce, cloud.DefaultReturns(), NewMetrics(r.registry), slog.New(slog.NewTextHandler(r.log, nil)))
	return r
}

// after lets time pass for the replica's clock, and looks.
func (r *replica) after(d time.Duration) {
	r.w.now = r.w.now.Add(d)
	r.Look(r.w.t.Context(), r.w.now)
}

// settle looks as often as it takes.
func (r *replica) settle() {
	r.after(time.Second)
	r.after(debounce)
}

// value is a metric's value; its labels are values only, in the order of their names.
func (r *replica) value(name string, labels ...string) float64 {
	r.w.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.w.t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var values []string
			for _, label := range metric.GetLabel() {
				values = append(values, label.GetValue())
			}
			if family.GetName() == "commandcenter_registry_"+name && fmt.Sprint(values) == fmt.Sprint(labels) {
				return metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	r.w.t.Fatalf("no metric %s %v", name, labels)
	return 0
}

func (w *world) exec(text string, args ...any) {
	w.t.Helper()
	w.raw.Exec(w.t, text, args...)
}

func (w *world) number(query string) int {
	w.t.Helper()
	return w.raw.Number(w.t, query)
}

func (w *world) epoch() int { return w.number(`SELECT Epoch FROM TblCloudState`) }

// enlist makes agents BM-1 to BM-n, as far as they are not there.
func (w *world) enlist(n int) {
	w.t.Helper()
	for i := 1; i <= n; i += 500 {
		var values []string
		for k := i; k < min(i+500, n+1); k++ {
			values = append(values, fmt.Sprintf("SELECT 'BM-%d' AS Name, 'bm-%d' AS NameKey, %d AS Rank", k, k, k))
		}
		w.exec(`INSERT INTO TblAgent (Name, NameKey, ReportedName, RegistrationState, OnServiceBus, CreatedAt)
			SELECT v.Name, v.NameKey, '', 2, 1, '2026-01-02T03:04:05.000Z' FROM (` + strings.Join(values, " UNION ALL ") + `) v
			WHERE NOT EXISTS (SELECT 1 FROM TblAgent a WHERE a.NameKey = v.NameKey) ORDER BY v.Rank`)
	}
}

func (w *world) join(names ...string) {
	w.t.Helper()
	for _, name := range names {
		asking := cloud.Candidate{Name: name, Endpoints: store.Endpoints(name+":8443", "https://"+name), Version: "1.0", Protocols: cloud.Protocols{Min: 1, Max: 1}}
		if _, _, err := w.self.Renew(w.t.Context(), asking, store.Reported{Connected: 0}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) silence(name string, seconds int) {
	w.exec(`UPDATE TblControlServer SET RenewedAt = `+w.raw.Since(w.raw.Now(), seconds)+` WHERE Name = @p1`, name)
}

func (w *world) maintain(name string, on bool) {
	mode := 1
	if on {
		mode = 2
	}
	w.exec(`UPDATE TblControlServer SET Mode = @p1, ChangedBy = 'anna', DecisionVersion = DecisionVersion + 1 WHERE Name = @p2`, mode, name)
}

func (w *world) agent(name string) cloud.Agent {
	w.t.Helper()
	parsed, err := enrollment.ParseName(name)
	if err != nil {
		w.t.Fatal(err)
	}
	agent, err := w.self.Assignment(w.t.Context(), parsed)
	if err != nil {
		w.t.Fatal(err)
	}
	return agent
}
