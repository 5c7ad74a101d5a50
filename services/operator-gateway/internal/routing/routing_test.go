package routing

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/spelling"
)

var policy = Policy{MaxHeartbeatAge: 90 * time.Second, MaxVerificationAge: 24 * time.Hour}

// agent is one that is Accepted, on Service Bus, fresh, with HTTP verified, changed as a row asks.
func agent(change func(*Agent)) Agent {
	a := Agent{
		Name: "BM-0042", State: Accepted, OnServiceBus: true, BusHeard: true, BusHeartbeatAge: 10 * time.Second,
		HTTPBaseURL: "http://bm-0042.example.test:7500", Verified: true, VerificationAge: time.Hour, ServerName: "bm-0042",
	}
	change(&a)
	return a
}

func stale(a *Agent) { a.BusHeartbeatAge = 90 * time.Second }

func offBus(a *Agent) { a.OnServiceBus = false }

func all(changes ...func(*Agent)) func(*Agent) {
	return func(a *Agent) {
		for _, change := range changes {
			change(a)
		}
	}
}

func TestDecideEveryRow(t *testing.T) {
	for _, row := range []struct {
		name      string
		change    func(*Agent)
		write     bool
		rule      string
		transport Transport
		refusal   fault.Reason
	}{
		{"unknown", func(a *Agent) { *a = Agent{Name: "nobody"} }, false, "1", None, fault.AgentNotFound},
		{"pending", func(a *Agent) { a.State = Pending }, false, "2", None, fault.AgentNotAccepted},
		{"rejected", func(a *Agent) { a.State = Rejected }, true, "2", None, fault.AgentNotAccepted},
		{"a state of a newer registry", func(a *Agent) { a.State = 9 }, false, "2", None, fault.AgentNotAccepted},
		{"names differ, read", func(a *Agent) { a.NamesDiffer = true }, false, "2a", None, fault.NameMismatch},
		{"names differ, write", func(a *Agent) { a.NamesDiffer = true }, true, "2a", None, fault.NameMismatch},
		{"identity conflict, write", func(a *Agent) { a.IdentityConflict = true }, true, "2a", None, fault.IdentityConflict},
		{"identity conflict, read", func(a *Agent) { a.IdentityConflict = true }, false, "3", ServiceBus, ""},
		{"fresh", func(*Agent) {}, true, "3", ServiceBus, ""},
		{"fresh without HTTP", func(a *Agent) { a.HTTPBaseURL, a.Verified = "", false }, true, "3", ServiceBus, ""},
		{"just fresh", func(a *Agent) { a.BusHeartbeatAge = 90*time.Second - 1 }, true, "3", ServiceBus, ""},
		{"stale, verified", stale, true, "4", HTTP, ""},
		{"stale by the time since the read", func(a *Agent) { a.BusHeartbeatAge, a.Elapsed = 89*time.Second, time.Second }, true, "4", HTTP, ""},
		{"never heard, verified", func(a *Agent) { a.BusHeard, a.BusHeartbeatAge = false, 0 }, true, "4", HTTP, ""},
		{"stale, verified as long ago as counts", all(stale, func(a *Agent) { a.VerificationAge = 24 * time.Hour }), true, "4", HTTP, ""},
		{"stale, never verified", all(stale, func(a *Agent) { a.Verified = false }), true, "5", None, fault.HeartbeatStale},
		{"stale, disproved", all(stale, func(a *Agent) { a.Verified, a.Disproved = false, true }), true, "5", None, fault.HeartbeatStale},
		{"stale, verified too long ago", all(stale, func(a *Agent) { a.VerificationAge = 24*time.Hour + 1 }), true, "5", None, fault.HeartbeatStale},
		{"stale, verification lapsed since the read", all(stale, func(a *Agent) { a.VerificationAge, a.Elapsed = 24*time.Hour, 1 }), true, "5", None, fault.HeartbeatStale},
		{"stale without HTTP", all(stale, func(a *Agent) { a.HTTPBaseURL, a.Verified = "", false }), true, "6", None, fault.HeartbeatStale},
		{"HTTP only", offBus, true, "7", HTTP, ""},
		{"HTTP only, not verified", all(offBus, func(a *Agent) { a.Verified = false }), true, "7", HTTP, ""},
		{"HTTP only, disproved", all(offBus, func(a *Agent) { a.Verified, a.Disproved = false, true }), false, "7", HTTP, ""},
		{"HTTP only, heard on the bus", all(offBus, stale), false, "7", HTTP, ""},
		{"no transport", all(offBus, func(a *Agent) { a.HTTPBaseURL = "" }), true, "8", None, fault.AgentUnreachable},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := Decide(agent(row.change), row.write, policy)
			if got.Rule != row.rule || got.Transport != row.transport || got.Refusal != row.refusal {
				t.Fatalf("rule %q, transport %v, refusal %q (%s); want %q, %v, %q",
					got.Rule, got.Transport, got.Refusal, got.Detail, row.rule, row.transport, row.refusal)
			}
			if got.Detail == "" {
				t.Error("no detail")
			}
			if (got.Fallback != "") != (row.rule == "4") {
				t.Errorf("fallback is %q", got.Fallback)
			}
			if got.Refusal != "" && !strings.Contains(got.Detail, "nothing was sent") {
				t.Errorf("the refusal does not say that nothing was sent: %s", got.Detail)
			}
		})
	}
}

func TestStaleSaysWhenOurOwnReceptionIsBlind(t *testing.T) {
	blind := all(stale, func(a *Agent) {
		a.Verified, a.IngestBlind, a.IngestDetail = false, true, "no consumer proved itself"
	})
	if got := Decide(agent(blind), false, policy).Detail; !strings.Contains(got, "no consumer proved itself") || !strings.Contains(got, "our own reception") {
		t.Errorf("it does not say so: %s", got)
	}
	seeing := all(stale, func(a *Agent) { a.Verified = false })
	if got := Decide(agent(seeing), false, policy).Detail; strings.Contains(got, "our own reception") {
		t.Errorf("it says so though all is well: %s", got)
	}
}

func TestStaleSaysWhenTheBrokersClockIsOff(t *testing.T) {
	measured := func(ahead, within time.Duration) Agent {
		return FromRegistry(&registryv1.Agent{
			Name: "BM-0042", RegistrationState: registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED, OnServiceBus: true, BusHeartbeatAge: durationpb.New(time.Hour),
		}, &registryv1.IngestHealth{Healthy: true, BrokerSkew: &registryv1.ClockSkew{Ahead: durationpb.New(ahead), Uncertainty: durationpb.New(within)}}, 0)
	}
	for _, c := range []struct {
		ahead, within time.Duration
		says          string // empty: nothing of it
	}{
		{-time.Minute, time.Second, "the broker's clock is 1m0s behind the database's"},
		{90 * time.Second, time.Second, "the broker's clock is 1m30s ahead of the database's"},
		{-5 * time.Second, 0, ""},
		{-7 * time.Second, 3 * time.Second, ""},
	} {
		decision := Decide(measured(c.ahead, c.within), true, policy)
		if decision.Refusal != fault.HeartbeatStale || strings.Contains(decision.Detail, "clock") != (c.says != "") || !strings.Contains(decision.Detail, c.says) {
			t.Errorf("%s within %s: %s: %s", c.ahead, c.within, decision.Refusal, decision.Detail)
		}
		if c.says != "" && !strings.Contains(decision.Detail, "ages do not depend on it, so the agent is silent all the same") {
			t.Errorf("it makes the clock the cause of silence: %s", decision.Detail)
		}
	}
}

// facts of every kind, with more weight on the edges.
func anyAgent(t *rapid.T) (Agent, bool) {
	age := func(name string, edge time.Duration) time.Duration {
		return rapid.OneOf(
			rapid.SampledFrom([]time.Duration{0, edge - 1, edge, edge + 1}),
			rapid.Map(rapid.Int64Range(0, int64(3*edge)), func(n int64) time.Duration { return time.Duration(n) }),
		).Draw(t, name)
	}
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	return Agent{
		Name: "BM-0042", State: rapid.SampledFrom([]State{Accepted, Accepted, Accepted, Accepted, Unknown, Pending, Rejected, 4}).Draw(t, "state"), OnServiceBus: flag("on bus"),
		BusHeard: flag("heard"), BusHeartbeatAge: age("heartbeat age", policy.MaxHeartbeatAge),
		HTTPBaseURL: rapid.SampledFrom([]string{"", "http://bm-0042.example.test"}).Draw(t, "base URL"),
		Verified:    flag("verified"), Disproved: flag("disproved"), VerificationAge: age("verification age", policy.MaxVerificationAge),
		NamesDiffer: rapid.IntRange(0, 4).Draw(t, "names differ") == 0, ServerName: "other", IdentityConflict: flag("conflict"),
		IngestBlind: flag("blind"), IngestDetail: "blind", Elapsed: age("elapsed", time.Second),
	}, flag("write")
}

func property(t *testing.T, holds func(t *rapid.T, a Agent, write bool, d Decision)) {
	rapid.Check(t, func(t *rapid.T) {
		a, write := anyAgent(t)
		d := Decide(a, write, policy)
		if (d.Transport == None) == (d.Refusal == "") {
			t.Fatalf("neither or both of transport and refusal: %+v", d)
		}
		holds(t, a, write, d)
	})
}

func TestI1_OnlyAcceptedAgentsAreAddressable(t *testing.T) {
	property(t, func(t *rapid.T, a Agent, _ bool, d Decision) {
		if a.State != Accepted && d.Transport != None {
			t.Fatalf("an agent that is %s is sent to over %v", a.State, d.Transport)
		}
	})
}

func TestI2_ServiceBusUnlessStaleThereAndVerifiedOnHTTP(t *testing.T) {
	property(t, func(t *rapid.T, a Agent, _ bool, d Decision) { takesItsOwnTransport(t, a, d) })
	// And every corner, since luck may leave one out.
	flags := []bool{false, true}
	heartbeats := []time.Duration{0, policy.MaxHeartbeatAge - 1, policy.MaxHeartbeatAge, 2 * policy.MaxHeartbeatAge}
	verifications := []time.Duration{0, policy.MaxVerificationAge, policy.MaxVerificationAge + 1}
	for _, onBus := range flags {
		for _, heard := range flags {
			for _, verified := range flags {
				for _, disproved := range flags {
					for _, url := range []string{"", "http://bm-0042.example.test"} {
						for _, heartbeat := range heartbeats {
							for _, verification := range verifications {
								a := Agent{
									Name: "BM-0042", State: Accepted, OnServiceBus: onBus, BusHeard: heard, BusHeartbeatAge: heartbeat,
									HTTPBaseURL: url, Verified: verified, Disproved: disproved, VerificationAge: verification,
								}
								takesItsOwnTransport(t, a, Decide(a, true, policy))
							}
						}
					}
				}
			}
		}
	}
}

func takesItsOwnTransport(t interface{ Fatalf(string, ...any) }, a Agent, d Decision) {
	isStale := !a.BusHeard || a.BusHeartbeatAge+a.Elapsed >= policy.MaxHeartbeatAge
	isVerified := a.HTTPBaseURL != "" && a.Verified && !a.Disproved && a.VerificationAge+a.Elapsed <= policy.MaxVerificationAge
	switch {
	case d.Transport == ServiceBus && (!a.OnServiceBus || isStale):
		t.Fatalf("over Service Bus, though stale or not on it: %+v", a)
	case d.Transport == HTTP && a.HTTPBaseURL == "":
		t.Fatalf("over HTTP without a base URL: %+v", a)
	case d.Transport == HTTP && a.OnServiceBus && !(isStale && isVerified):
		t.Fatalf("an agent on Service Bus falls back with stale %v, verified %v: %+v", isStale, isVerified, a)
	case d.Verified != isVerified:
		t.Fatalf("Verified is %v: %+v", d.Verified, a)
	}
}

// There is nothing of Active or Online in what a decision rests on, so that reading them must change nothing.
func TestI10_ActiveAndOnlineNeverBlockACommand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		read := func(active, online bool) Decision {
			return Decide(FromRegistry(&registryv1.Agent{
				Name: "BM-0042", RegistrationState: registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED, OnServiceBus: true,
				BusHeartbeatAge: durationpb.New(time.Second), Server: &registryv1.ServerLink{Name: "bm-0042", Active: active, Online: online},
			}, nil, 0), true, policy)
		}
		want := read(true, true)
		if want.Transport != ServiceBus {
			t.Fatalf("%+v", want)
		}
		if got := read(rapid.Bool().Draw(t, "active"), rapid.Bool().Draw(t, "online")); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestI18_AnAgentWhoseServerHasAnotherNameIsNotAddressable(t *testing.T) {
	property(t, func(t *rapid.T, a Agent, _ bool, d Decision) {
		if a.NamesDiffer && d.Transport != None {
			t.Fatal("it is sent to")
		}
	})
	for server, differs := range map[string]bool{"BM-0042": false, "bm-0042": false, " Bm-0042 ": false, "BM-0043": true, "": true} {
		facts := FromRegistry(&registryv1.Agent{Name: "BM-0042", Server: &registryv1.ServerLink{Name: server}}, nil, 0)
		if facts.NamesDiffer != differs {
			t.Errorf("server %q: names differ is %v", server, facts.NamesDiffer)
		}
	}
	if FromRegistry(&registryv1.Agent{Name: "Straße"}, nil, 0).NamesDiffer || !spelling.Same("STRASSE", "straße") {
		t.Error("names that fold alike differ")
	}
}

func TestExplainDecidesAsDecideDoes(t *testing.T) {
	property(t, func(t *rapid.T, a Agent, write bool, d Decision) {
		explained, verdicts := Explain(a, write, policy)
		if explained != d {
			t.Fatalf("explained %+v, decided %+v", explained, d)
		}
		for i, verdict := range verdicts {
			last := i == len(verdicts)-1
			if verdict.Matched != last || verdict.Condition == "" || verdict.Because == "" || last && verdict.Number != d.Rule {
				t.Fatalf("verdict %d of %d: %+v", i, len(verdicts), verdict)
			}
		}
	})
}

func TestFromRegistryReadsAges(t *testing.T) {
	facts := FromRegistry(&registryv1.Agent{
		Name: "BM-0042", RegistrationState: registryv1.RegistrationState_REGISTRATION_STATE_ACCEPTED, OnServiceBus: true,
		BusHeartbeatAge: durationpb.New(time.Minute), DirectHeartbeatAge: durationpb.New(0), HttpBaseUrl: "http://x.example.test",
		HttpVerification:   &registryv1.HttpVerification{Outcome: registryv1.VerificationOutcome_VERIFICATION_OUTCOME_SUCCEEDED, Age: durationpb.New(time.Hour)},
		IdentityConflictAt: timestamppb.Now(), Server: &registryv1.ServerLink{Name: "gone", Missing: true},
	}, &registryv1.IngestHealth{Detail: "deaf"}, time.Second)
	want := Agent{
		Name: "BM-0042", State: Accepted, OnServiceBus: true, BusHeard: true, BusHeartbeatAge: time.Minute, HTTPBaseURL: "http://x.example.test",
		Verified: true, VerificationAge: time.Hour, IdentityConflict: true, IngestBlind: true, IngestDetail: "deaf", Elapsed: time.Second,
	}
	if facts != want {
		t.Errorf("got %+v\nwant %+v", facts, want)
	}
	never := FromRegistry(&registryv1.Agent{DirectHeartbeatAge: durationpb.New(0)}, nil, 0)
	if never.BusHeard || never.Verified || never.Disproved || never.IngestBlind {
		t.Errorf("an agent that was never heard on the bus: %+v", never)
	}
}
