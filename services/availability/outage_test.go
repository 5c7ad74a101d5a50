package availability

import (
	"context"
	"database/sql"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	availabilityv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/availability/v1"
	"github.com/commandcenter/fleet/services/internal/config"
	"github.com/commandcenter/fleet/services/internal/fault"
)

// ask asks the admin listener.
func ask(admin, path string) (status int, body string) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + admin + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// A database server that takes connections and never says a word holds up neither the admin listener nor a stop, and ends nothing.
func TestTheStartWaitsForTheDatabase(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes the connections
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	cfg := settings("")
	cfg.Database.URL = config.Secret("sqlserver://u:p@" + listener.Addr().String() + "?database=d&encrypt=true")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Admin.Listen = free.Addr().String()
	_ = free.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg) }()
	until(t, "readiness says why it waits", func() bool {
		status, body := ask(cfg.Admin.Listen, "/readyz")
		return status == 503 && strings.Contains(body, "waits for the database since ")
	})
	if status, _ := ask(cfg.Admin.Listen, "/livez"); status != 200 {
		t.Error("it does not live")
	}
	began := time.Now()
	stop()
	if err := <-ended; err != nil || time.Since(began) > 15*time.Second {
		t.Errorf("stopped after %s: %v", time.Since(began), err)
	}
}

// While nothing can be written, what is known is shown, with a banner first, and an operator's act says why it comes to nothing.
func TestADatabaseWithoutWritesIsSaid(t *testing.T) {
	path := migrated(t)
	raw, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Exec("INSERT INTO TblServer (Name, Type, Url, Active, Online) VALUES ('BM-1', 'BenefitManager', 'http://x', 1, 1)"); err != nil {
		t.Fatal(err)
	}
	replica := start(t, settings(path))
	_, err = replica.client.GetAvailability(t.Context(), &availabilityv1.GetAvailabilityRequest{Server: "BM-1"})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := raw.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	until(t, "the banner says so", func() bool {
		banners := replica.overview(t).GetBanners()
		return len(banners) > 0 && strings.HasPrefix(banners[0], "The database cannot be written: writes do not work, since ")
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = replica.client.SetMaintenance(ctx, &availabilityv1.SetMaintenanceRequest{Server: "BM-1", Etag: "0", Reason: "r", Actor: "alice"})
	if found := fault.From(err); found == nil || found.Reason != fault.DatabaseReadOnly || !strings.Contains(found.Detail, "holds the lock") {
		t.Errorf("an act says %v", err)
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
}
