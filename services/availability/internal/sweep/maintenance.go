package sweep

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/windows"
)

// schedule keeps windows as they were read before: they never change under their id.
type schedule struct {
	read   map[int64]windows.Window
	logger *slog.Logger
}

// servers tells in words which servers are in maintenance, by switch or window, by the database's clock. The switch is told before
// windows, and of windows the one that ends last.
func (s *schedule) servers(fleet store.Fleet) map[int64]string {
	in := map[int64]string{}
	ends := map[int64]time.Time{}
	kept := make(map[int64]windows.Window, len(fleet.Windows))
	for _, stored := range fleet.Windows {
		window, known := s.read[stored.ID]
		if !known {
			var err error
			if window, err = stored.Window(); err != nil {
				s.logger.Error("a maintenance window cannot be read and is left out: delete it and make it anew", "window", stored.ID, "server_key", stored.ServerKey, "error", err)
			}
		}
		kept[stored.ID] = window // one that cannot be read never occurs
		if now, covered := window.Covering(fleet.ReadAt); covered && now.End.After(ends[stored.ServerKey]) {
			in[stored.ServerKey], ends[stored.ServerKey] = inWindow(stored, now.End), now.End
		}
	}
	s.read = kept
	for i := range fleet.Servers {
		if one := &fleet.Servers[i]; one.Switch.OnAt(fleet.ReadAt) {
			in[one.Key] = bySwitch(one.Switch)
		}
	}
	return in
}

// Reasons are cut, so that what else is told of a server has room.

func inWindow(w store.Window, end time.Time) string {
	return fmt.Sprintf("in a maintenance window until %s: %.400s", end.UTC().Format(time.RFC3339), w.Reason)
}

func bySwitch(s store.Switch) string {
	if s.EndAt.IsZero() {
		return fmt.Sprintf("in maintenance by %s: %.400s", s.ChangedBy, s.Reason)
	}
	return fmt.Sprintf("in maintenance until %s by %s: %.400s", s.EndAt.Format(time.RFC3339), s.ChangedBy, s.Reason)
}
