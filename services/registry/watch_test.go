package registry

import (
	"database/sql"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/registry/internal/rpc"
)

// A count that fails leaves the others right: here one in the middle.
func TestEachCountIsMadeAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	cfg := DefaultConfig()
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Database.URL = config.Secret("sqlite:" + path)
	if err := Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	opened, _, err := cfg.Database.open()
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	metrics := rpc.NewMetrics(prometheus.NewRegistry())
	counts := newCounts(opened, metrics, cfg.Logger)
	raw, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Exec("ALTER TABLE TblAgentReceiver RENAME COLUMN Unanswered TO Gone"); err != nil {
		t.Fatal(err)
	}
	metrics.SuspectReceivers.Set(-1)
	metrics.Astray.Set(-1)
	counts.look(t.Context())
	if got := testutil.ToFloat64(metrics.SuspectReceivers); got != -1 {
		t.Errorf("%v suspect receivers, though they cannot be counted", got)
	}
	if got := testutil.ToFloat64(metrics.Astray); got != 0 {
		t.Errorf("astray agents stay at %v, since another count failed", got)
	}
}
