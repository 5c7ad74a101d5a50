package story

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// availability is the second half of the story: what becomes of the servers' Online.
func (t *teller) availability() []step {
	return []step{
		{"An agent falls silent: its server goes offline, with one row in the offline log", t.goesOffline},
		{"It is heard again: its server is online at once, and there is no row for that", t.comesOnline},
		{"Maintenance on: offline with one row, and a command still reaches the agent", t.maintenance},
		{"A maintenance window that starts now, and ends by itself", t.window},
		{"The ingest stops: we are blind, so nobody goes offline, and it is said", t.blind},
	}
}

func (t *teller) goesOffline(ctx context.Context) error {
	if err := t.becomes(ctx, Bus, true); err != nil {
		return err
	}
	if err := t.logged(ctx, Bus, 0); err != nil {
		return err
	}
	if err := t.Fleet.Silence(Bus); err != nil {
		return err
	}
	if err := t.becomes(ctx, Bus, false); err != nil {
		return err
	}
	if _, err := t.call(ctx, http.MethodGet, serverAt(Bus), nil, "", answers(200, "VERDICT_UNAVAILABLE", "heartbeat silent")); err != nil {
		return err
	}
	return t.logged(ctx, Bus, 1)
}

func (t *teller) comesOnline(ctx context.Context) error {
	if err := t.Fleet.Wake(Bus); err != nil {
		return err
	}
	if err := t.becomes(ctx, Bus, true); err != nil {
		return err
	}
	return t.logged(ctx, Bus, 1)
}

func (t *teller) maintenance(ctx context.Context) error {
	path := at("config", "servers", Bus, "maintenance")
	before, err := t.call(ctx, http.MethodGet, path, nil, "", answers(200))
	if err != nil {
		return err
	}
	on, err := t.call(ctx, http.MethodPut, path, object{"reason": "new disks"}, before.Text("manual", "etag"), answers(200, "new disks"))
	if err != nil {
		return err
	}
	if err := t.becomes(ctx, Bus, false); err != nil {
		return err
	}
	if err := t.logged(ctx, Bus, 2); err != nil {
		return err
	}
	if _, err := t.call(ctx, http.MethodGet, serverAt(Bus), nil, "", answers(200, "SERVER_STATE_MAINTENANCE", "new disks")); err != nil {
		return err
	}
	if _, err := t.call(ctx, http.MethodPost, at("agents", Bus, "services", service, "restart"), nil, "", answers(200, "TRANSPORT_SERVICE_BUS")); err != nil {
		return err
	}
	if _, err := t.call(ctx, http.MethodDelete, path, nil, on.Text("manual", "etag"), answers(200)); err != nil {
		return err
	}
	return t.becomes(ctx, Bus, true)
}

func (t *teller) window(ctx context.Context) error {
	now := time.Now().UTC()
	window := object{"reason": "a short one", "rule": object{
		"startAt": now.Add(-time.Second).Format(time.RFC3339Nano), "endAt": now.Add(4 * time.Second).Format(time.RFC3339Nano),
	}}
	if _, err := t.call(ctx, http.MethodPost, at("config", "servers", Bus, "maintenance-windows"), window, "", answers(200, "a short one")); err != nil {
		return err
	}
	if err := t.becomes(ctx, Bus, false); err != nil {
		return err
	}
	if err := t.becomes(ctx, Bus, true); err != nil {
		return err
	}
	return t.logged(ctx, Bus, 3)
}

func (t *teller) blind(ctx context.Context) error {
	if err := t.Ingest.Stop(ctx); err != nil {
		return err
	}
	err := t.until(ctx, Bus+" is held", func() (bool, error) {
		server, err := t.Client.Do(ctx, http.MethodGet, serverAt(Bus), nil, "")
		return server.Text("holding") == "HOLDING_FROZEN", err
	})
	if err != nil {
		return errors.Join(err, t.Ingest.Start(ctx))
	}
	_, held := t.call(ctx, http.MethodGet, serverAt(Bus), nil, "", answers(200, `"online":true`, "SERVER_STATE_HELD", "heartbeat silent"))
	_, said := t.call(ctx, http.MethodGet, "/api/availability/overview", nil, "", answers(200, "frozenSince", "frozen since"))
	if err := errors.Join(held, said, t.Ingest.Start(ctx)); err != nil {
		return err
	}
	err = t.until(ctx, "the freeze ends", func() (bool, error) {
		server, err := t.Client.Do(ctx, http.MethodGet, serverAt(Bus), nil, "")
		return server.Text("verdict") == "VERDICT_AVAILABLE" && server.Text("holding") != "HOLDING_FROZEN", err
	})
	if err != nil {
		return err
	}
	return t.logged(ctx, Bus, 3)
}

func serverAt(server string) string { return at("availability", "servers", server) }

// becomes waits until a server's Online is so, and shows it.
func (t *teller) becomes(ctx context.Context, server string, online bool) error {
	what := map[bool]string{true: server + " is online", false: server + " is offline"}[online]
	var shown string
	err := t.until(ctx, what, func() (bool, error) {
		answer, err := t.Client.Do(ctx, http.MethodGet, serverAt(server), nil, "")
		shown = answer.Raw
		return err == nil && answer.Status == http.StatusOK && (answer.Text("online") == "true") == online, err
	})
	_, _ = fmt.Fprintf(t.out, "  GET %s → %s\n", serverAt(server), shorten(shown))
	return err
}

// logged checks how many rows the offline log of a server has.
func (t *teller) logged(ctx context.Context, server string, rows int) error {
	answer, err := t.call(ctx, http.MethodGet, at("config", "servers", server, "offline-log"), nil, "", answers(200))
	if err != nil {
		return err
	}
	if got := len(answer.List("entries")); got != rows {
		return fmt.Errorf("the offline log of %s has %d rows, expected %d", server, got, rows)
	}
	return nil
}
