package enrollment

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"time"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

// Identity is what a direct agent presents with each heartbeat. On the bus there is none: whoever may send to the topic is believed.
type Identity struct {
	TokenHash []byte // SHA-256 of the token that the machine made for itself
	Enrols    bool   // the enrolment key came with it
}

// CheckIdentity reads what came with a heartbeat of a path, or says which field is at fault.
func CheckIdentity(path Path, presented *registryv1.DirectIdentity) (Identity, *InvalidError) {
	hash := presented.GetTokenHash()
	switch {
	case path == Bus && presented == nil:
		return Identity{}, nil
	case path == Bus:
		return Identity{}, &InvalidError{"identity", "is for direct heartbeats only, and this one came over the bus"}
	case len(hash) != sha256.Size:
		return Identity{}, &InvalidError{"identity.token_hash", fmt.Sprintf("must be a SHA-256 of %d bytes, has %d", sha256.Size, len(hash))}
	}
	return Identity{hash, presented.GetEnrols()}, nil
}

// Claim says which machine may send direct heartbeats under a name.
type Claim struct {
	TokenHash []byte // the machine's; nil: nobody has claimed the name
	Claimable bool   // an operator allowed the next machine that enrols to claim it
}

// Register is the claim with which a heartbeat makes an unknown name known; ok is false when it must not. Over the bus a name becomes
// known unclaimed: who enrols under it later may be another machine, so that an operator has to allow it.
func (h Heartbeat) Register() (claim Claim, ok bool) {
	if h.Path == Bus {
		return Claim{}, true
	}
	return Claim{TokenHash: h.Identity.TokenHash}, h.Identity.Enrols
}

// Receive judges which machine sent a heartbeat under a known name, and applies it if that is the agent's. A refused one tells nothing of
// the agent, not even that it lives. The first token of a name wins, so that its machine may repeat whatever was not answered.
func (c Contact) Receive(heartbeat Heartbeat, now time.Time) (Contact, Changes, Result) {
	if heartbeat.Path == Bus {
		return c.Observe(heartbeat, now)
	}
	identified, claim, refusal := c.identify(heartbeat.Identity, now)
	if refusal != 0 {
		return identified, claim, refusal
	}
	next, changes, result := identified.Observe(heartbeat, now)
	if claim.Claim {
		result = Updated
	}
	return next, changes.And(claim), result
}

// identify tells whether a machine may speak under the name, and lets it claim one that is claimable. The result is 0 when it may speak.
func (c Contact) identify(presented Identity, now time.Time) (Contact, Changes, Result) {
	switch {
	case c.TokenHash != nil && subtle.ConstantTimeCompare(c.TokenHash, presented.TokenHash) == 1:
		return c, Changes{}, 0
	case c.TokenHash != nil:
		return c.mistaken(presented, now)
	case !presented.Enrols:
		return c, Changes{}, NotRegistered
	case !c.Claimable:
		return c, Changes{}, NotClaimable
	}
	c.Claim = Claim{TokenHash: presented.TokenHash}
	return c, Changes{Claim: true}, 0
}

// mistaken marks a conflict, once, when a second machine enrols under a claimed name. Whoever comes without the enrolment key may be anybody,
// and must not be able to have an agent's writes refused.
func (c Contact) mistaken(presented Identity, now time.Time) (Contact, Changes, Result) {
	if !presented.Enrols || !c.ConflictAt.IsZero() {
		return c, Changes{}, WrongToken
	}
	c.ConflictAt = now
	return c, Changes{Liveness: true}, WrongToken
}
