package store

import (
	"context"
	"fmt"

	"github.com/commandcenter/fleet/services/internal/spelling"
	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// lockMembers lets one transaction at a time decide who is in the cloud: of two that joined under one name or at one address at once, each
// would see the cloud without the other.
func lockMembers(ctx context.Context, tx *sqldb.Tx) error { return lock(ctx, tx, "TblControlServer") }

// lockCloud is the first write of each transaction that writes the cloud's state beside other tables: the second of two waits here, and holds
// nothing that the first may need.
func lockCloud(ctx context.Context, tx *sqldb.Tx) error {
	_, err := tx.Exec(ctx, "lock_cloud")
	return err
}

// Reported is what a control server tells of itself with each renewal.
type Reported struct {
	Connected int   // agents it served of late
	ClockSkew *Skew // of its own clock; nil: not measured yet
}

// Renew lets a control server join, or renews its lease, and tells what it is now and the cloud it is in. A clash is a *cloud.Refusal, and
// changes nothing. Its name keeps the spelling it first had.
func (c *Cloud) Renew(ctx context.Context, candidate cloud.Candidate, reported Reported) (ControlServer, Overview, error) {
	var self ControlServer
	var judged Overview
	err := c.db.Change(ctx, func(tx *sqldb.Tx) error {
		if err := lockMembers(ctx, tx); err != nil {
			return err
		}
		at, err := now(ctx, tx)
		if err != nil {
			return err
		}
		before, err := c.judged(ctx, tx, at, nil)
		if err != nil {
			return err
		}
		admitted, err := before.Join(candidate)
		if err != nil {
			return err
		}
		name, err := enrollment.ParseName(candidate.Name)
		if err != nil {
			return err
		}
		if err := before.admit(ctx, tx, name, candidate, reported, admitted); err != nil {
			return err
		}
		after, err := c.judged(ctx, tx, at, nil)
		if err != nil {
			return err
		}
		judged = after
		self, err = after.server(name)
		return err
	})
	return self, judged, err
}

// admit writes that a candidate joined, or renewed its lease.
func (o Overview) admit(ctx context.Context, tx *sqldb.Tx, name enrollment.Name, candidate cloud.Candidate, reported Reported, admitted cloud.Admission) error {
	for _, s := range o.Servers {
		for _, id := range admitted.Replaces {
			if s.ID != id {
				continue
			}
			if err := removeServer(ctx, tx, s); err != nil {
				return err
			}
		}
	}
	grpc, rest := Addresses(candidate.Endpoints)
	facts := []any{
		named("grpcEndpoint", grpc), named("restEndpoint", rest), named("version", candidate.Version), named("protocolMin", candidate.Protocols.Min),
		named("protocolMax", candidate.Protocols.Max), named("now", sqldb.Text(o.ReadAt)), named("connected", reported.Connected),
		named("clockAhead", reported.ClockSkew.ahead()), named("clockAheadWithin", reported.ClockSkew.within()),
	}
	if admitted.ID == 0 {
		_, err := tx.Exec(ctx, "insert_control_server", append(facts, named("name", name.Spelling), named("nameKey", name.Key))...)
		return err
	}
	return changed(tx.Exec(ctx, "renew_control_server", append(facts, named("key", admitted.ID))...))
}

func removeServer(ctx context.Context, tx *sqldb.Tx, s ControlServer) error {
	return changed(tx.Exec(ctx, "remove_control_server", named("key", s.ID), named("decisionVersion", s.DecisionVersion)))
}

// Leave ends the lease of a control server that stops: it is suspect at once, and agents fail over. Another server under the name, which
// has another endpoint, is left alone; one that is unknown or suspect already stays as it is.
func (c *Cloud) Leave(ctx context.Context, name enrollment.Name, grpcEndpoint string) error {
	return c.db.Change(ctx, func(tx *sqldb.Tx) error {
		at, err := now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "leave_cloud", named("nameKey", name.Key), named("grpcEndpoint", grpcEndpoint),
			named("endedAt", sqldb.Text(at.Add(-c.limits.LeaseTimeout))))
		return err
	})
}

// ControlServerChange is what an operator changes of a control server; zero and nil stay.
type ControlServerChange struct {
	Mode    cloud.Mode
	Weight  *int
	Standby *bool
	Group   *string // name of the affinity group; empty: none
}

// UpdateServer changes a control server whose etag is still the one given. Whether agents are to be spread anew is seen by the job.
func (c *Cloud) UpdateServer(ctx context.Context, name enrollment.Name, etag string, change ControlServerChange, actor string) (ControlServer, error) {
	var after ControlServer
	err := c.db.Change(ctx, func(tx *sqldb.Tx) error {
		overview, err := c.overview(ctx, tx)
		if err != nil {
			return err
		}
		current, err := overview.server(name)
		if err != nil {
			return err
		}
		if err := checkEtag(etag, current.Etag()); err != nil {
			return err
		}
		next, err := change.apply(current, overview.Groups)
		if err != nil {
			return err
		}
		if err := writeServer(ctx, tx, current, next, actor); err != nil {
			return err
		}
		overview, err = c.overview(ctx, tx)
		if err != nil {
			return err
		}
		after, err = overview.server(name)
		return err
	})
	return after, err
}

func (change ControlServerChange) apply(current ControlServer, groups []Group) (ControlServer, error) {
	next := current
	if change.Mode != 0 {
		next.Mode = change.Mode
	}
	if change.Weight != nil {
		next.Weight = *change.Weight
	}
	if change.Standby != nil {
		next.Standby = *change.Standby
	}
	if change.Group == nil {
		return next, nil
	}
	if next.Group = 0; *change.Group == "" {
		return next, nil
	}
	for _, group := range groups {
		if spelling.Same(group.Name, *change.Group) {
			next.Group = group.Key
			return next, nil
		}
	}
	return next, &GroupNotFoundError{Name: *change.Group}
}

// writeServer writes what an operator decided. Deciding what is there already is no decision.
func writeServer(ctx context.Context, tx *sqldb.Tx, current, next ControlServer, actor string) error {
	if next.Mode == current.Mode && next.Weight == current.Weight && next.Standby == current.Standby && next.Group == current.Group {
		return nil
	}
	return changed(tx.Exec(ctx, "update_control_server", named("key", current.ID), named("decisionVersion", current.DecisionVersion),
		named("mode", int(next.Mode)), named("weight", next.Weight), named("standby", flagOf(next.Standby)), named("group", sqldb.Null(next.Group)),
		named("actor", actor)))
}

// RemoveServer removes a control server that is gone or drained; otherwise it is a *cloud.Refusal.
func (c *Cloud) RemoveServer(ctx context.Context, name enrollment.Name, etag, actor string) error {
	return c.db.Change(ctx, func(tx *sqldb.Tx) error {
		if err := lockCloud(ctx, tx); err != nil {
			return err
		}
		if err := lockMembers(ctx, tx); err != nil {
			return err
		}
		overview, err := c.overview(ctx, tx)
		if err != nil {
			return err
		}
		current, err := overview.server(name)
		if err != nil {
			return err
		}
		if err := checkEtag(etag, current.Etag()); err != nil {
			return err
		}
		if err := current.Removable(); err != nil {
			return err
		}
		if err := removeServer(ctx, tx, current); err != nil || !current.Listing.Listed {
			return err // nobody moves: a request would name the actor for what agents do by themselves
		}
		return request(ctx, tx, actor)
	})
}

// request asks that agents be spread anew, for what the control servers themselves do not show. It stays until that is done.
func request(ctx context.Context, tx *sqldb.Tx, actor string) error {
	if err := changed(tx.Exec(ctx, "request_partition", named("actor", actor))); err != nil {
		return fmt.Errorf("the row of TblCloudState is missing: %w", err)
	}
	return nil
}
