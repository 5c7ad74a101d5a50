package enrollment

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
)

func tokenOf(machine string) []byte {
	hash := sha256.Sum256([]byte(machine))
	return hash[:]
}

// direct is a heartbeat that a machine sends to a control server, with the enrolment key or without.
func direct(machine string, enrols bool, sequence int64, seconds int) Heartbeat {
	b := beat("boot of "+machine, sequence, seconds)
	b.Path, b.Identity = Direct, Identity{tokenOf(machine), enrols}
	return b
}

func claimed(by string) Contact { return Contact{Claim: Claim{TokenHash: tokenOf(by)}} }

var (
	unclaimed = Contact{}
	claimable = Contact{Claim: Claim{Claimable: true}}
	disputed  = Contact{Claim: claimed("one").Claim, ConflictAt: at(0)}
)

func TestI13_TheFirstTokenOfANameWins(t *testing.T) {
	for _, row := range []struct {
		what     string
		before   Contact
		then     Heartbeat
		result   Result
		owner    string // afterwards; empty: nobody
		conflict time.Time
	}{
		{"its machine", claimed("one"), direct("one", false, 1, 1), Updated, "one", time.Time{}},
		{"its machine registers again", claimed("one"), direct("one", true, 1, 1), Updated, "one", time.Time{}},
		{"its machine, under a conflict", disputed, direct("one", true, 1, 1), Updated, "one", at(0)},
		{"anybody without the key", claimed("one"), direct("two", false, 1, 1), WrongToken, "one", time.Time{}},
		{"a second machine registers", claimed("one"), direct("two", true, 1, 1), WrongToken, "one", now},
		{"a second machine registers again", disputed, direct("two", true, 1, 1), WrongToken, "one", at(0)},
		{"known from the bus, without the key", unclaimed, direct("one", false, 1, 1), NotRegistered, "", time.Time{}},
		{"known from the bus, with the key", unclaimed, direct("one", true, 1, 1), NotClaimable, "", time.Time{}},
		{"allowed, without the key", claimable, direct("one", false, 1, 1), NotRegistered, "", time.Time{}},
		{"allowed, with the key", claimable, direct("one", true, 1, 1), Updated, "one", time.Time{}},
		{"over the bus", claimed("one"), beat("a", 1, 1), Updated, "one", time.Time{}},
	} {
		t.Run(row.what, func(t *testing.T) {
			after, changes, result := row.before.Receive(row.then, now)
			var owner []byte
			if row.owner != "" {
				owner = tokenOf(row.owner)
			}
			if result != row.result || !bytes.Equal(after.TokenHash, owner) || !after.ConflictAt.Equal(row.conflict) {
				t.Fatalf("result %v, conflict %s, token %x", result, after.ConflictAt, after.TokenHash)
			}
			if taken := after.Newest == row.then.Order; taken != result.Taken() {
				t.Errorf("the contact became %+v by %v", after, result)
			}
			if !result.Taken() && (!after.LastDirectAt.IsZero() || after.Content.Hostname != "" || after.Claimable != row.before.Claimable) {
				t.Errorf("a refused heartbeat told something: %+v", after)
			}
			if marked := !after.ConflictAt.Equal(row.before.ConflictAt); !result.Taken() && changes != (Changes{Liveness: marked}) {
				t.Errorf("refused, it writes %+v", changes)
			}
			if claims := !bytes.Equal(after.TokenHash, row.before.TokenHash); changes.Claim != claims || (claims && after.Claimable) {
				t.Errorf("claims %t: %+v, claimable %t", claims, changes, after.Claimable)
			}
			again, changes, result := after.Receive(row.then, now)
			if want := map[bool]Result{true: Duplicate, false: row.result}[row.result.Taken()]; result != want || changes.Any() || fmt.Sprint(again) != fmt.Sprint(after) {
				t.Errorf("repeated it is %v, writes %+v", result, changes)
			}
		})
	}
}

func TestWhatMakesAnUnknownNameKnown(t *testing.T) {
	for what, row := range map[string]struct {
		beat  Heartbeat
		ok    bool
		token []byte
	}{
		"bus":             {beat("a", 1, 1), true, nil},
		"direct, enrols":  {direct("one", true, 1, 1), true, tokenOf("one")},
		"direct, unknown": {direct("one", false, 1, 1), false, tokenOf("one")},
	} {
		claim, ok := row.beat.Register()
		if ok != row.ok || claim.Claimable || (ok && !bytes.Equal(claim.TokenHash, row.token)) {
			t.Errorf("%s: %+v %t", what, claim, ok)
		}
	}
}

func TestI17_AnIdentityThatIsMissingOrOutOfPlaceIsNamed(t *testing.T) {
	hash := tokenOf("one")
	for what, row := range map[string]struct {
		path      Path
		presented *registryv1.DirectIdentity
		field     string
	}{
		"bus":                      {Bus, nil, ""},
		"bus with an identity":     {Bus, &registryv1.DirectIdentity{TokenHash: hash}, "identity"},
		"bus with an empty one":    {Bus, &registryv1.DirectIdentity{}, "identity"},
		"direct":                   {Direct, &registryv1.DirectIdentity{TokenHash: hash, Enrols: true}, ""},
		"direct without any":       {Direct, nil, "identity.token_hash"},
		"direct without a hash":    {Direct, &registryv1.DirectIdentity{Enrols: true}, "identity.token_hash"},
		"direct with a short hash": {Direct, &registryv1.DirectIdentity{TokenHash: hash[1:]}, "identity.token_hash"},
		"direct with a long hash":  {Direct, &registryv1.DirectIdentity{TokenHash: append(slices.Clone(hash), 0)}, "identity.token_hash"},
	} {
		identity, invalid := CheckIdentity(row.path, row.presented)
		switch {
		case row.field != "" && (invalid == nil || invalid.Field != row.field):
			t.Errorf("%s: %v, want %s", what, invalid, row.field)
		case row.field == "" && (invalid != nil || !bytes.Equal(identity.TokenHash, row.presented.GetTokenHash()) || identity.Enrols != row.presented.GetEnrols()):
			t.Errorf("%s: %+v, %v", what, identity, invalid)
		}
	}
}

// Whatever machines present under a name, the row is what the heartbeats of its owner and of the bus alone would have made of it.
func TestI6_RefusedHeartbeatsLeaveTheRowAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		contact := rapid.SampledFrom([]Contact{claimed("one"), unclaimed, claimable}).Draw(t, "known")
		want := contact // without what is refused
		for second := range rapid.IntRange(1, 30).Draw(t, "heartbeats") {
			b := direct(rapid.SampledFrom([]string{"one", "two", "three"}).Draw(t, "machine"), rapid.Bool().Draw(t, "enrols"), int64(second)+1, second)
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0, 1:
				b = beat("bus", int64(second), second)
			case 2: // an operator resets the token
				contact.Claim, contact.ConflictAt = Claim{Claimable: true}, time.Time{}
				want.ConflictAt = time.Time{}
			}
			before := contact
			after, changes, result := contact.Receive(b, now)
			if contact = after; result.Taken() {
				want, _, _ = want.Observe(b, now)
			}
			owner := before.TokenHash
			if changes.Claim {
				if owner != nil || !before.Claimable || !b.Identity.Enrols {
					t.Fatalf("claimed from %+v by %+v", before.Claim, b.Identity)
				}
				owner = b.Identity.TokenHash
			}
			if !bytes.Equal(after.TokenHash, owner) || (b.Path == Direct && result.Taken() != (owner != nil && bytes.Equal(owner, b.Identity.TokenHash))) {
				t.Fatalf("%v: %+v became %+v", result, before.Claim, after.Claim)
			}
			if !before.ConflictAt.IsZero() && !after.ConflictAt.Equal(before.ConflictAt) {
				t.Fatal("a conflict is marked once")
			}
			want.ConflictAt = after.ConflictAt
			if visible(after) != visible(want) {
				t.Fatalf("with what was refused: %s\nwithout: %s", visible(after), visible(want))
			}
		}
	})
}
