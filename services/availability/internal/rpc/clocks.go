package rpc

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/availability/internal/store"
	"github.com/commandcenter/fleet/services/availability/internal/verdict"
)

// skewed names a broker whose clock differs from the database's, before anybody orders servers offline that only look silent.
func skewed(path verdict.Path, p store.Path) string {
	if p.Broker == (verdict.Skew{}) {
		return ""
	}
	text := fmt.Sprintf("The broker's clock is %s the database's, as heartbeats on the %s path show. Their ages are taken from the broker's own clock, so no server is silent for that; "+
		"set the clock right that is wrong.", apart(p.Broker.Ahead), path)
	if !p.State.Brake.Since.IsZero() {
		text += " Look whether the silent servers are down before the brake is applied: agents whose heartbeats a replica of an earlier release takes look older than they are."
	}
	return text
}

// apart is how far one clock is from another, which follows it.
func apart(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).Round(100*time.Millisecond).String() + " behind"
	}
	return ahead.Round(100*time.Millisecond).String() + " ahead of"
}

func skewMessage(skew verdict.Skew) *registryv1.ClockSkew {
	if skew == (verdict.Skew{}) {
		return nil
	}
	return &registryv1.ClockSkew{Ahead: durationpb.New(skew.Ahead), Uncertainty: durationpb.New(skew.Within)}
}
