package enrollment

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
	"github.com/commandcenter/fleet/services/internal/textrule"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Limits of a heartbeat, as agent.proto states them; a test holds the two together.
const (
	maxHostname     = 255
	maxVersion      = 64
	maxBootID       = 64
	maxURL          = 2048
	maxBindings     = 1000
	maxCapabilities = 64
	maxCapability   = 64
)

// InvalidError says which field of a heartbeat breaks which rule.
type InvalidError struct{ Field, Rule string }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Rule }

// CheckHeartbeat turns an agent's message into a heartbeat, or says which field is at fault. It is written out by hand because
// it runs for every heartbeat; the rules are those of agent.proto.
func CheckHeartbeat(message *agentv1.Heartbeat, path Path, observedAt *timestamppb.Timestamp) (Heartbeat, *InvalidError) {
	if message == nil {
		return Heartbeat{}, &InvalidError{"heartbeat", "is required"}
	}
	name, err := ParseName(message.GetName())
	if err != nil {
		return Heartbeat{}, &InvalidError{"heartbeat.name", err.Error()}
	}
	// Messages to the agent are addressed in this spelling, blanks and all: it is the session that it waits on.
	if len(utf16.Encode([]rune(message.GetName()))) > MaxNameLength {
		return Heartbeat{}, &InvalidError{"heartbeat.name", fmt.Sprintf("must be at most %d characters with the blanks around it", MaxNameLength)}
	}
	if path != Bus && path != Direct {
		return Heartbeat{}, &InvalidError{"path", "must be bus or direct"}
	}
	if !observedAt.IsValid() {
		return Heartbeat{}, &InvalidError{"observed_at", "is required"}
	}
	for _, text := range []struct {
		field, value string
		most         int
	}{
		{"heartbeat.hostname", message.GetHostname(), maxHostname},
		{"heartbeat.agent_version", message.GetAgentVersion(), maxVersion},
		{"heartbeat.boot_id", message.GetBootId(), maxBootID},
		{"heartbeat.http_base_url", message.GetHttpBaseUrl(), maxURL},
	} {
		if invalid := checkText(text.field, text.value, text.most); invalid != nil {
			return Heartbeat{}, invalid
		}
	}
	if message.GetSequence() < 0 {
		return Heartbeat{}, &InvalidError{"heartbeat.sequence", "must be 0 or more"}
	}
	if len(message.GetCapabilities()) > maxCapabilities {
		return Heartbeat{}, &InvalidError{"heartbeat.capabilities", fmt.Sprintf("must be at most %d, has %d", maxCapabilities, len(message.GetCapabilities()))}
	}
	for i, capability := range message.GetCapabilities() {
		if invalid := checkText(fmt.Sprintf("heartbeat.capabilities[%d]", i), capability, maxCapability); invalid != nil {
			return Heartbeat{}, invalid
		}
	}
	heartbeat := Heartbeat{
		Name: name, Path: path,
		// Milliseconds, as they are stored: a finer instant would look newer than itself when it is delivered again.
		Order: Order{BootID: message.GetBootId(), Sequence: message.GetSequence(), ObservedAt: observedAt.AsTime().Truncate(time.Millisecond)},
		Content: Content{
			ReportedName: message.GetName(), Hostname: message.GetHostname(), AgentVersion: message.GetAgentVersion(),
			HTTPBaseURL: message.GetHttpBaseUrl(), Capabilities: message.GetCapabilities(),
		},
	}
	heartbeat.cleanTexts(message.GetName())
	if message.GetReportedAt().IsValid() {
		heartbeat.Content.ReportedAt = message.GetReportedAt().AsTime()
	}
	invalid := heartbeat.takeBindings(message.GetIisBindings())
	return heartbeat, invalid
}

// cleanTexts notes the first text that a new agent is refused for, and puts a replacement for each character that is not shown. An agent that
// has a row is alive whatever it says, and goes on, marked by the replacement.
func (h *Heartbeat) cleanTexts(name string) {
	if err := textrule.Name(name); err != nil {
		h.OnlyKnown = &InvalidError{"heartbeat.name", err.Error()}
	}
	clean := func(field string, text *string) {
		if err := textrule.Line(*text); err != nil {
			if h.OnlyKnown == nil {
				h.OnlyKnown = &InvalidError{field, err.Error()}
			}
			*text = textrule.Shown(*text)
		}
	}
	clean("heartbeat.hostname", &h.Content.Hostname)
	clean("heartbeat.agent_version", &h.Content.AgentVersion)
	clean("heartbeat.boot_id", &h.Order.BootID)
	clean("heartbeat.http_base_url", &h.Content.HTTPBaseURL)
	h.Content.Capabilities = slices.Clone(h.Content.Capabilities)
	for i := range h.Content.Capabilities {
		clean(fmt.Sprintf("heartbeat.capabilities[%d]", i), &h.Content.Capabilities[i])
	}
}

// Binding is one IIS binding as it is stored: with a replacement for each character that is not shown. Who set up the site chose its texts, so
// that they are no reason to refuse the agent.
type Binding struct {
	Site        string `json:"site"`
	State       string `json:"state,omitempty"`
	Protocol    string `json:"protocol,omitempty"`
	Information string `json:"information,omitempty"`
	SSLFlags    int32  `json:"sslFlags,omitempty"`
	Thumbprint  string `json:"thumbprint,omitempty"`
}

var bindingLimits = struct{ site, state, protocol, information, thumbprint int }{512, 64, 64, 1024, 128}

func (h *Heartbeat) takeBindings(reported *agentv1.IisBindings) *InvalidError {
	if reported == nil {
		return nil
	}
	if count := len(reported.GetBindings()); count > maxBindings {
		return &InvalidError{"heartbeat.iis_bindings.bindings", fmt.Sprintf("must be at most %d, has %d", maxBindings, count)}
	}
	bindings := make([]Binding, 0, len(reported.GetBindings()))
	for i, b := range reported.GetBindings() {
		at := fmt.Sprintf("heartbeat.iis_bindings.bindings[%d].", i)
		for _, text := range []struct {
			field, value string
			most         int
		}{
			{"site_name", b.GetSiteName(), bindingLimits.site},
			{"site_state", b.GetSiteState(), bindingLimits.state},
			{"protocol", b.GetProtocol(), bindingLimits.protocol},
			{"binding_information", b.GetBindingInformation(), bindingLimits.information},
			{"certificate_thumbprint", b.GetCertificateThumbprint(), bindingLimits.thumbprint},
		} {
			if invalid := checkText(at+text.field, text.value, text.most); invalid != nil {
				return invalid
			}
		}
		bindings = append(bindings, Binding{
			Site: textrule.Shown(b.GetSiteName()), State: textrule.Shown(b.GetSiteState()), Protocol: textrule.Shown(b.GetProtocol()),
			Information: textrule.Shown(b.GetBindingInformation()), SSLFlags: b.GetSslFlags(), Thumbprint: textrule.Shown(b.GetCertificateThumbprint()),
		})
	}
	encoded, err := json.Marshal(bindings)
	if err != nil {
		return &InvalidError{"heartbeat.iis_bindings", err.Error()}
	}
	h.Bindings, h.Content.BindingsCount = encoded, len(bindings)
	return nil
}

// checkText counts characters as agent.proto does.
func checkText(field, value string, most int) *InvalidError {
	if !utf8.ValidString(value) {
		return &InvalidError{field, "must be valid UTF-8"}
	}
	if len(value) > most && utf8.RuneCountInString(value) > most {
		return &InvalidError{field, fmt.Sprintf("must be at most %d characters", most)}
	}
	return nil
}
