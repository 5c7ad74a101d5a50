package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/commandcenter/fleet/services/internal/dbclock"
	"github.com/commandcenter/fleet/services/internal/spelling"
	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
)

// Cloud keeps the control servers, the affinity groups, and which control servers each agent works with. What becomes of them is decided in
// package cloud, by the database's clock.
type Cloud struct {
	db     *sqldb.DB
	limits cloud.Limits
}

// Cloud is the part of the store about control servers, which are judged by these limits.
func (s *Store) Cloud(limits cloud.Limits) *Cloud { return &Cloud{s.db, limits} }

// ControlServer is one row of TblControlServer, as judged when it was read.
type ControlServer struct {
	cloud.Standing
	GroupName       string // of its affinity group; empty: none
	DecisionVersion int64
	ClockSkew       *Skew // of its host's clock, as it measured that at its last renewals; nil: not yet
}

// Etag names the present state of what operators decide.
func (c ControlServer) Etag() string { return enrollment.Etag(c.ID, c.DecisionVersion) }

// DrainEndsAt is when a draining control server begins to turn agents away; zero: not before the lists leave it out.
func (c *Cloud) DrainEndsAt(server ControlServer) time.Time {
	return server.Member.DrainEndsAt(c.limits)
}

// Endpoints are where agents reach a control server: gRPC first, then REST, where it serves that.
func Endpoints(grpc, rest string) []string {
	if rest == "" {
		return []string{grpc}
	}
	return []string{grpc, rest}
}

// Addresses takes Endpoints apart again.
func Addresses(endpoints []string) (grpc, rest string) {
	if len(endpoints) > 0 {
		grpc = endpoints[0]
	}
	if len(endpoints) > 1 {
		rest = endpoints[1]
	}
	return grpc, rest
}

// Overview is the whole cloud, as judged when it was read.
type Overview struct {
	cloud.Membership
	ReadAt  time.Time
	Clock   dbclock.State   // of the database's clock
	Epoch   int64           // of the last partition; 0: there was none
	Servers []ControlServer // by name
	Groups  []Group         // by name
}

// server finds a control server by its name.
func (o Overview) server(name enrollment.Name) (ControlServer, error) {
	for _, s := range o.Servers {
		if spelling.Fold(s.Name) == name.Key {
			return s, nil
		}
	}
	return ControlServer{}, &ControlServerNotFoundError{Name: name.Spelling}
}

// Overview reads the whole cloud, with counts of agents.
func (c *Cloud) Overview(ctx context.Context) (Overview, error) {
	var overview Overview
	err := c.db.View(ctx, func(tx *sqldb.Tx) error {
		var err error
		overview, err = c.overview(ctx, tx)
		return err
	})
	return overview, err
}

// overview reads the whole cloud within a transaction.
func (c *Cloud) overview(ctx context.Context, tx *sqldb.Tx) (Overview, error) {
	state, err := readState(ctx, tx)
	if err != nil {
		return Overview{}, err
	}
	assigned, err := agentsByPrimary(ctx, tx)
	if err != nil {
		return Overview{}, err
	}
	groups, err := readGroups(ctx, tx)
	if err != nil {
		return Overview{}, err
	}
	clock, _, err := readClock(ctx, tx)
	if err != nil {
		return Overview{}, err
	}
	overview, err := c.judged(ctx, tx, state.readAt, assigned)
	overview.Clock, overview.Epoch, overview.Groups = clock, state.Epoch, groups
	for i, group := range groups {
		overview.Groups[i].ControlServers = overview.members(group.Key)
	}
	return overview, err
}

func (o Overview) members(group int64) []string {
	var names []string
	for _, s := range o.Servers {
		if s.Group == group {
			names = append(names, s.Name)
		}
	}
	return names
}

// judged reads the control servers, and judges them. Assigned may be nil where nobody asks how many agents each has.
func (c *Cloud) judged(ctx context.Context, tx *sqldb.Tx, at time.Time, assigned map[int64]int) (Overview, error) {
	rows, err := readControlServers(ctx, tx)
	if err != nil {
		return Overview{}, err
	}
	byID := make(map[int64]ControlServer, len(rows))
	members := make([]cloud.Member, len(rows))
	for i, row := range rows {
		row.Assigned = assigned[row.ID]
		members[i], byID[row.ID] = row.Member, row
	}
	judged := Overview{ReadAt: at, Membership: cloud.Judge(members, at, c.limits)}
	for _, standing := range judged.Members {
		server := byID[standing.ID]
		server.Standing = standing
		judged.Servers = append(judged.Servers, server)
	}
	slices.SortFunc(judged.Servers, func(a, b ControlServer) int { return cmp.Compare(spelling.Fold(a.Name), spelling.Fold(b.Name)) })
	return judged, nil
}

func readControlServers(ctx context.Context, tx *sqldb.Tx) ([]ControlServer, error) {
	var rows []ControlServer
	err := tx.Rows(ctx, "control_servers", func(scan func(...any) error) error {
		row, err := scanControlServer(scan)
		rows = append(rows, row)
		return err
	})
	return rows, err
}

func scanControlServer(scan func(...any) error) (ControlServer, error) {
	var c ControlServer
	var grpc, rest string
	var mode, standby, group, connected, listed sqldb.Int
	var groupName, changedBy, unlistedAs sqldb.String
	var renewedAt, unlistedAt sqldb.Time
	var ahead, within any
	err := scan(&c.ID, &c.Name, &grpc, &rest, &c.Version, &c.Protocols.Min, &c.Protocols.Max, &mode, &c.Weight, &standby,
		&group, &groupName, &changedBy, &c.DecisionVersion, &renewedAt, &connected, &listed, &unlistedAt, &unlistedAs,
		&ahead, &within)
	c.Endpoints, c.Mode, c.Standby, c.Group, c.GroupName = Endpoints(grpc, rest), cloud.Mode(mode), standby == 1, int64(group), string(groupName)
	c.ClockSkew = skewOf(ahead, within)
	c.ChangedBy, c.RenewedAt, c.Connected = string(changedBy), renewedAt.Time, int(connected)
	c.Listing = cloud.Listing{Listed: listed == 1, UnlistedAt: unlistedAt.Time, UnlistedAs: cloud.State(unlistedAs)}
	return c, err
}

// AgentsByPrimary counts agents by the id of their primary; 0: they have none yet.
func (c *Cloud) AgentsByPrimary(ctx context.Context) (map[int64]int, error) {
	return agentsByPrimary(ctx, c.db)
}

func agentsByPrimary(ctx context.Context, from reader) (map[int64]int, error) {
	counts := map[int64]int{}
	err := from.Rows(ctx, "agents_by_primary", func(scan func(...any) error) error {
		var id sqldb.Int
		var count int
		err := scan(&id, &count)
		counts[int64(id)] = count
		return err
	})
	return counts, err
}
