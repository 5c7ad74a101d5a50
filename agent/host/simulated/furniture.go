package simulated

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

const (
	automatic = agentv1.ServiceStartType_SERVICE_START_TYPE_AUTOMATIC
	delayed   = agentv1.ServiceStartType_SERVICE_START_TYPE_AUTOMATIC_DELAYED
	manual    = agentv1.ServiceStartType_SERVICE_START_TYPE_MANUAL
	disabled  = agentv1.ServiceStartType_SERVICE_START_TYPE_DISABLED

	day = 24 * time.Hour
)

// furnish draws what the machine holds.
func (h *Host) furnish() {
	now := h.options.Clock.Now().Truncate(day)
	for _, s := range []struct {
		name, display string
		start         agentv1.ServiceStartType
		phase         phase
	}{
		{"W3SVC", "World Wide Web Publishing Service", automatic, running},
		{"WAS", "Windows Process Activation Service", manual, running},
		{"BenefitManager", "BenefitManager Server", automatic, running},
		{"BenefitManager Scheduler", "BenefitManager Scheduler", delayed, running},
		{"MSSQL$BENEFITS", "SQL Server (BENEFITS)", automatic, running},
		{"Spooler", "Print Spooler", automatic, running},
		{"W32Time", "Windows Time", manual, stopped},
		{"RemoteRegistry", "Remote Registry", disabled, stopped},
	} {
		u := &unit{kind: servicesKind, name: s.name, displayName: s.display, startType: s.start, phase: s.phase}
		if u.phase == running {
			u.pid = 1000 + 4*h.random.Int32N(8000)
		}
		h.services = append(h.services, u)
	}
	if h.options.AgentService != "" {
		h.services = append(h.services, &unit{
			kind: servicesKind, name: h.options.AgentService, displayName: "CommandCenter Agent", startType: automatic, phase: running, pid: 996,
		})
	}
	for _, p := range []unit{
		{name: "DefaultAppPool", runtimeVersion: "v4.0", pipelineMode: "Integrated", identity: "ApplicationPoolIdentity", phase: running},
		{name: "BenefitManager", runtimeVersion: "v4.0", pipelineMode: "Integrated", identity: `CORP\svc-benefits`, phase: running},
		{name: "Benefits Reports", pipelineMode: "Integrated", identity: "NetworkService", phase: running},
		{name: "Legacy.Classic", runtimeVersion: "v2.0", pipelineMode: "Classic", identity: "ApplicationPoolIdentity", phase: stopped},
	} {
		p.kind = poolsKind
		h.pools = append(h.pools, &p)
	}
	h.furnishSoftware(now)
	h.furnishSites(now)
}

// furnishSoftware draws the products and packages.
func (h *Host) furnishSoftware(now time.Time) {
	patch := 1 + h.random.IntN(9)
	for i, p := range []struct{ id, product, version, path string }{
		{"benefit-manager", "BenefitManager Server", fmt.Sprintf("8.4.%d", patch), `C:\Program Files\BenefitManager`},
		{"benefit-reports", "Benefits Reports", fmt.Sprintf("3.1.%d", patch), `C:\Program Files\BenefitManager\Reports`},
		{"dotnet-hosting-8", "Microsoft .NET 8 Hosting Bundle", "8.0.11", `C:\Program Files\dotnet`},
		{"sql-odbc-17", "Microsoft ODBC Driver 17 for SQL Server", "17.10.6.1", `C:\Windows\System32`},
	} {
		at := now.Add(-day * time.Duration(30*(i+1)+h.random.IntN(30)))
		h.installations = append(h.installations, &agentv1.Installation{
			Id: p.id, Product: p.product, Version: p.version, Path: p.path, InstalledAt: timestamppb.New(at),
		})
	}
	h.packages = []*agentv1.Package{
		{Id: "Benefits.Web", Version: fmt.Sprintf("8.4.%d", patch)},
		{Id: "Benefits.Rules", Version: "2026.10.0"},
		{Id: "Benefits.Legacy", Version: "1.0.3"},
	}
	h.configured = []*agentv1.Package{
		{Id: "Benefits.Web", Version: fmt.Sprintf("8.4.%d", patch+1)},
		{Id: "Benefits.Rules", Version: "2026.10.0"},
		{Id: "Benefits.Reports", Version: "3.1.0"},
	}
}

// furnishSites draws the certificates, and the bindings that use them: the plain ones, and one of each odd shape
// that IIS knows.
func (h *Host) furnishSites(now time.Time) {
	hostName := Hostname(h.name)
	web := h.certificate("CN="+hostName, now, 365*day, 120*day, hostName, "benefits.fleet.example")
	wildcard := h.certificate("CN=*.fleet.example", now, 90*day, 20*day, "*.fleet.example")
	expired := h.certificate("CN=old."+hostName, now, 800*day, -70*day, "old."+hostName)
	spare := h.certificate("CN=Spare, O=Fleet Example", now, 10*day, 700*day)
	spare.HasPrivateKey = false
	web.BoundSites, wildcard.BoundSites, expired.BoundSites = []string{"BenefitManager"}, []string{"Wildcard"}, []string{"Old Intranet"}
	h.certificates = []*agentv1.Certificate{web, wildcard, expired, spare}

	bind := func(site, state, protocol, information string, sslFlags int32, certificate *agentv1.Certificate) {
		h.bindings = append(h.bindings, &agentv1.IisBinding{
			SiteName: site, SiteState: state, Protocol: protocol, BindingInformation: information,
			SslFlags: sslFlags, CertificateThumbprint: certificate.GetThumbprint(),
		})
	}
	bind("Default Web Site", "Started", "http", "*:80:", 0, nil)
	bind("BenefitManager", "Started", "https", "*:443:"+hostName, 1, web)
	bind("BenefitManager", "Started", "http", "*:8080:"+hostName, 0, nil)
	bind("BenefitManager", "Started", "net.tcp", "808:*", 0, nil)
	bind("BenefitManager", "Started", "net.pipe", "*", 0, nil)
	bind("Wildcard", "Started", "https", "*:443:*.fleet.example", 1, wildcard)
	bind("IPv6", "Started", "http", fmt.Sprintf("[2001:db8::%x]:8081:", 1+h.random.IntN(0xfffe)), 0, nil)
	bind("Management", "Started", "http", "127.0.0.1:9000:", 0, nil)
	bind("Old Intranet", "Stopped", "https", "10.1.2.3:443:old."+hostName, 1, expired)
	bind("Files", "Started", "ftp", "*:21:", 0, nil)
}

// certificate was issued so long ago, and expires in so long (or has, when below 0).
func (h *Host) certificate(subject string, now time.Time, issued, left time.Duration, names ...string) *agentv1.Certificate {
	thumbprint := make([]byte, 20) // SHA-1
	for i := range thumbprint {
		thumbprint[i] = byte(h.random.Uint32())
	}
	return &agentv1.Certificate{
		Subject: subject, SubjectAlternativeNames: names, Issuer: "CN=Fleet Example Issuing CA",
		Thumbprint: strings.ToUpper(hex.EncodeToString(thumbprint)), HasPrivateKey: true,
		NotBefore: timestamppb.New(now.Add(-issued)), NotAfter: timestamppb.New(now.Add(left)),
	}
}

// hostLetter makes a machine's name one that DNS takes.
func hostLetter(r rune) rune {
	switch {
	case r == '-', '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		return r
	}
	return '-'
}

// Hostname of the machine of that name.
func Hostname(name string) string {
	return strings.ToLower(strings.Map(hostLetter, name)) + ".fleet.example"
}
