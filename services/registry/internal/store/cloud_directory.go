package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/commandcenter/fleet/services/internal/sqldb"
	"github.com/commandcenter/fleet/services/registry/internal/cloud"
)

// listed is a control server as the directory is stored.
type listed struct {
	ID        int64    `json:"id"`
	Name      string   `json:"name"`
	Endpoints []string `json:"endpoints"`
	Weight    int      `json:"weight"`
	Standby   bool     `json:"standby,omitempty"`
	Group     int64    `json:"group,omitempty"`
}

func encodeDirectory(d cloud.Directory) (string, error) {
	var servers []listed
	for _, s := range d.Servers() {
		servers = append(servers, listed(s))
	}
	encoded, err := json.Marshal(servers)
	return string(encoded), err
}

// Directory reads the directory as committed; of version 0 before the first partition.
func (c *Cloud) Directory(ctx context.Context) (cloud.Directory, error) {
	return readDirectory(ctx, c.db)
}

func readDirectory(ctx context.Context, from reader) (cloud.Directory, error) {
	var version int64
	var text sqldb.String
	err := from.Rows(ctx, "directory", func(scan func(...any) error) error { return scan(&version, &text) })
	if err != nil || version == 0 {
		return cloud.Directory{}, err
	}
	var stored []listed
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return cloud.Directory{}, fmt.Errorf("TblCloudState.Directory: %w", err)
	}
	var servers []cloud.Server
	for _, s := range stored {
		servers = append(servers, cloud.Server(s))
	}
	return cloud.NewDirectory(version, servers)
}
