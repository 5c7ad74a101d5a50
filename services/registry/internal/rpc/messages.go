package rpc

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	registryv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/registry/v1"
	"github.com/commandcenter/fleet/services/internal/agenthttp"
	"github.com/commandcenter/fleet/services/internal/fault"
	"github.com/commandcenter/fleet/services/internal/paging"
	"github.com/commandcenter/fleet/services/internal/textrule"
	"github.com/commandcenter/fleet/services/registry/internal/bindings"
	"github.com/commandcenter/fleet/services/registry/internal/enrollment"
	"github.com/commandcenter/fleet/services/registry/internal/store"
)

func agentMessage(a store.Agent) *registryv1.Agent {
	message := &registryv1.Agent{
		Name: a.Name, ReportedName: a.ReportedName, Hostname: a.Hostname, AffinityGroup: a.AffinityGroup,
		RegistrationState: registryv1.RegistrationState(a.State), DecidedBy: a.DecidedBy, DecidedAt: instant(a.DecidedAt), Etag: a.Etag(),
		OnServiceBus: a.OnServiceBus, HttpBaseUrl: a.HTTPBaseURL, ReportedHttpBaseUrl: a.ReportedHTTPBaseURL,
		HttpVerification: &registryv1.HttpVerification{
			Outcome: registryv1.VerificationOutcome(a.Verification), VerifiedAt: instant(a.VerifiedAt), Age: age(a.VerifiedAt, a.ReadAt), Detail: a.VerificationDetail,
		},
		LastBusHeartbeatAt: instant(a.LastBusAt), BusHeartbeatAge: age(a.LastBusAt, a.ReadAt),
		LastDirectHeartbeatAt: instant(a.LastDirectAt), DirectHeartbeatAge: age(a.LastDirectAt, a.ReadAt),
		BootId: a.BootID, Sequence: a.Sequence, ReportedAt: instant(a.ReportedAt), AgentVersion: a.AgentVersion, Capabilities: a.Capabilities,
		IdentityConflictAt: instant(a.ConflictAt), CreatedAt: instant(a.CreatedAt),
		Problems: problems(a.Name, map[string]string{
			"hostname": a.Hostname, "agentVersion": a.AgentVersion, "bootId": a.BootID, "reportedHttpBaseUrl": a.ReportedHTTPBaseURL, "capabilities": strings.Join(a.Capabilities, " "),
		}),
		IisBindingsReported: a.BindingsReported, IisBindingCount: int32(a.BindingCount), HasToken: a.HasToken, Claimable: a.Claimable,
	}
	if a.Receiver.Known() {
		message.CommandReceiver = &registryv1.CommandReceiver{
			AnsweredAt: instant(a.Receiver.AnsweredAt), AnsweredAge: age(a.Receiver.AnsweredAt, a.ReadAt),
			Unanswered: int32(a.Receiver.Unanswered), UnansweredSince: instant(a.Receiver.UnansweredSince), Suspect: a.Receiver.Suspect(),
		}
	}
	switch {
	case a.Server != nil:
		message.Server = &registryv1.ServerLink{ServerKey: a.Server.Key, Name: a.Server.Name, Url: a.Server.URL, Active: a.Server.Active, Online: a.Server.Online}
	case a.ServerKey != 0:
		message.Server = &registryv1.ServerLink{ServerKey: max(a.ServerKey, 0), Missing: true} // below 0: set aside
	}
	return message
}

func serverMessage(s store.Server) *registryv1.Server {
	return &registryv1.Server{
		ServerKey: s.Key, Name: s.Name, Url: s.URL, Type: s.Type, Active: s.Active, Online: s.Online, Etag: s.Etag(), Agent: s.Agent, Problems: problems(s.Name, nil),
	}
}

func healthMessage(path registryv1.HeartbeatPath, h store.Health) *registryv1.IngestHealth {
	return &registryv1.IngestHealth{Path: path, Healthy: h.Healthy, HealthySince: instant(h.Since), Detail: h.Detail, BrokerSkew: skewMessage(h.BrokerSkew)}
}

func proposalMessage(p bindings.Proposal) *registryv1.UrlProposal {
	message := &registryv1.UrlProposal{Url: p.URL, Offered: p.Offered, Reason: p.Reason, Sites: p.Sites}
	for _, b := range p.Bindings {
		message.Bindings = append(message.Bindings, &agentv1.IisBinding{
			SiteName: b.Site, SiteState: b.State, Protocol: b.Protocol, BindingInformation: b.Information, SslFlags: b.SSLFlags, CertificateThumbprint: b.Thumbprint,
		})
	}
	return message
}

func instant(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}

func age(at, readAt time.Time) *durationpb.Duration {
	if at.IsZero() {
		return nil
	}
	return durationpb.New(max(0, readAt.Sub(at)))
}

// parseNewName checks a name that a request gives to something.
func parseNewName(pointer, text string) (enrollment.Name, error) {
	name, err := enrollment.ParseNewName(text)
	if err != nil {
		return name, fault.Invalid(pointer, "%v", err)
	}
	return name, nil
}

// parseLine checks a text of one line in a request.
func parseLine(pointer, text string) error {
	if err := textrule.Line(text); err != nil {
		return fault.Invalid(pointer, "%v", err)
	}
	return nil
}

// problems says what of an agent or a server looks otherwise than it is: its name, by today's rules for new ones, and texts of which
// characters were replaced because they are not shown.
func problems(name string, texts map[string]string) []string {
	var found []string
	if err := textrule.Name(name); err != nil {
		found = append(found, "name: "+err.Error()+"; a new one would be refused")
	}
	for _, field := range slices.Sorted(maps.Keys(texts)) {
		if textrule.Replaced(texts[field]) {
			found = append(found, field+": held characters that are not shown, each replaced by U+FFFD")
		}
	}
	return found
}

// parseName checks an agent's name in a request.
func parseName(pointer, text string) (enrollment.Name, error) {
	name, err := enrollment.ParseName(text)
	if err != nil {
		return name, fault.Invalid(pointer, "%v", err)
	}
	return name, nil
}

// parseServerURL checks the URL customers' traffic is routed to.
func parseServerURL(pointer, text string) error {
	if err := parseLine(pointer, text); err != nil {
		return err
	}
	parsed, err := url.Parse(text)
	switch {
	case err != nil:
		return fault.Invalid(pointer, "is not a URL")
	case (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Hostname() == "":
		return fault.Invalid(pointer, "must begin with http:// or https:// and name a host")
	case parsed.User != nil || parsed.Fragment != "":
		return fault.Invalid(pointer, "must have neither user info nor fragment")
	case !agenthttp.UsablePort(parsed):
		return fault.Invalid(pointer, "must have a port of 1 to 65535, or none")
	}
	if err := textrule.Host(parsed.Hostname()); err != nil {
		return fault.Invalid(pointer, "%v", err)
	}
	return nil
}

func parseBaseURL(pointer, text string) (string, error) {
	base, err := agenthttp.ParseBaseURL(text)
	if err != nil {
		return "", fault.Invalid(pointer, "%v", err)
	}
	return base.String(), nil
}

// newServer reads how the server to create looks; nil when none is to be created.
func newServer(message *registryv1.NewServer) (*store.Server, error) {
	if message == nil {
		return nil, nil
	}
	if err := parseServerURL("/createServer/url", message.GetUrl()); err != nil {
		return nil, err
	}
	return &store.Server{URL: message.GetUrl(), Active: message.Active == nil || message.GetActive()}, nil
}

// duration reads a duration that may be absent.
func duration(pointer string, given *durationpb.Duration, fallback, least time.Duration) (time.Duration, error) {
	if given == nil {
		return fallback, nil
	}
	if !given.IsValid() || given.AsDuration() < least {
		return 0, fault.Invalid(pointer, "must be at least %s", least)
	}
	return given.AsDuration(), nil
}

// page reads what every list has: how many, and where from.
func page(size int32, token string, question any) (int, *store.Cursor, error) {
	after, err := paging.Parse[store.Cursor](token, question)
	if err == nil && after != nil && after.Key <= 0 {
		err = fault.Invalid("/pageToken", "is not a page token of this list")
	}
	return paging.Size(size), after, err
}

// nextPage is the token of the next page; empty: there is none.
func nextPage(next *store.Cursor, question any) (string, error) {
	if next == nil {
		return "", nil
	}
	return paging.Token(*next, question)
}
