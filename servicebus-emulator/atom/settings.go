package atom

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// What Service Bus allows, and its defaults but for the size, which there is 1024 MB and on disk.
const (
	maxLockDuration     = 5 * time.Minute
	defaultLockDuration = time.Minute
	minAutoDelete       = 5 * time.Minute
	minDuplicateWindow  = 20 * time.Second
	maxDuplicateWindow  = 7 * 24 * time.Hour
	defaultWindow       = 10 * time.Minute
	maxDeliveries       = 2000
	defaultDeliveries   = 10
	maxMegabytes        = 81920
	defaultMegabytes    = 256
	maxKilobytes        = 102400
	defaultKilobytes    = 256
	maxMetadata         = 1024
)

// reader reads values and keeps the first error, which names the setting.
type reader struct{ err error }

func (r *reader) refuse(name, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...))
	}
}

// given answers a value, and whether there was one.
func given(text *string) (string, bool) {
	if text == nil {
		return "", false
	}
	value := strings.TrimSpace(*text)
	return value, value != ""
}

func (r *reader) flag(name string, text *string, standard bool) bool {
	value, ok := given(text)
	if !ok {
		return standard
	}
	switch value {
	case "true", "1":
		return true
	case "false", "0":
		return false
	}
	r.refuse(name, "%q is not true or false", value)
	return standard
}

func (r *reader) number(name string, text *string, standard, most int) int {
	value, ok := given(text)
	if !ok {
		return standard
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		r.refuse(name, "%q is not in 1 to %d", value, most)
	}
	return n
}

// duration reads one in a range. What is unlimited becomes zero if there is no upper bound.
func (r *reader) duration(name string, text *string, standard, least, most time.Duration) time.Duration {
	value, ok := given(text)
	if !ok {
		return standard
	}
	d, err := ParseDuration(value)
	switch {
	case err != nil:
		r.refuse(name, "%v", err)
	case most == 0 && d >= unlimited:
		return 0
	case d < least || (most > 0 && d > most):
		limit := FormatDuration(most)
		r.refuse(name, "%s is not in %s to %s", value, FormatDuration(least), limit)
	}
	return d
}

// target reads a path to forward to, which SDKs write as a URI with the namespace's host.
func (r *reader) target(name string, text *string) string {
	value, _ := given(text)
	if !strings.Contains(value, "://") {
		return strings.Trim(value, "/")
	}
	uri, err := url.Parse(value)
	if err != nil {
		r.refuse(name, "%q is not a URI", value)
		return ""
	}
	return strings.Trim(uri.Path, "/")
}

// scheme is that of a URI to forward to, which is shown as it was set; empty where there is none.
func scheme(text *string) string {
	value, _ := given(text)
	before, _, _ := strings.Cut(value, "://")
	if before == value {
		return ""
	}
	return before
}

// settings reads a description of the entity that is there now, if any: what is fixed stays unless it is written.
func (d *description) settings(kind kind, now Settings) (Settings, error) {
	var r reader
	s := Settings{
		DefaultTTL: r.duration("DefaultMessageTimeToLive", d.DefaultMessageTimeToLive, 0, 1, 0),

		AutoDeleteOnIdle: r.duration("AutoDeleteOnIdle", d.AutoDeleteOnIdle, 0, minAutoDelete, 0),
	}
	if kind != topics {
		s.LockDuration = r.duration("LockDuration", d.LockDuration, defaultLockDuration, 1, maxLockDuration)
		s.MaxDeliveryCount = r.number("MaxDeliveryCount", d.MaxDeliveryCount, defaultDeliveries, maxDeliveries)
		s.RequiresSession = r.flag("RequiresSession", d.RequiresSession, now.RequiresSession)
		s.DeadLetterOnExpiration = r.flag("DeadLetteringOnMessageExpiration", d.DeadLetteringOnMessageExpiration, false)
		s.ForwardTo = r.target("ForwardTo", d.ForwardTo)
		s.ForwardDeadLettersTo = r.target("ForwardDeadLetteredMessagesTo", d.ForwardDeadLetteredMessagesTo)
	}
	if kind != subscriptions {
		s.MaxSizeInMegabytes = r.number("MaxSizeInMegabytes", d.MaxSizeInMegabytes, defaultMegabytes, maxMegabytes)
		s.MaxMessageKilobytes = r.number("MaxMessageSizeInKilobytes", d.MaxMessageSizeInKilobytes, defaultKilobytes, maxKilobytes)
		window := r.duration("DuplicateDetectionHistoryTimeWindow", d.DuplicateDetectionHistoryTimeWindow,
			defaultWindow, minDuplicateWindow, maxDuplicateWindow)
		if r.flag("RequiresDuplicateDetection", d.RequiresDuplicateDetection, now.DuplicateWindow > 0) {
			s.DuplicateWindow = window
		}
	}
	s.Notes = d.notes(&r)
	d.refuseUnsupported(&r)
	return s, r.err
}

func (d *description) notes(r *reader) Notes {
	n := Notes{
		DisableBatchedOperations:  !r.flag("EnableBatchedOperations", d.EnableBatchedOperations, true),
		EnablePartitioning:        r.flag("EnablePartitioning", d.EnablePartitioning, false),
		EnableExpress:             r.flag("EnableExpress", d.EnableExpress, false),
		DisableOrdering:           !r.flag("SupportOrdering", d.SupportOrdering, true),
		DeadLetterOnFilterFailure: r.flag("DeadLetteringOnFilterEvaluationExceptions", d.DeadLetteringOnFilterEvaluationExceptions, false),
		ForwardScheme:             scheme(d.ForwardTo),
		ForwardDeadLettersScheme:  scheme(d.ForwardDeadLetteredMessagesTo),
	}
	if d.UserMetadata != nil {
		n.UserMetadata = *d.UserMetadata
	}
	if utf8.RuneCountInString(n.UserMetadata) > maxMetadata {
		r.refuse("UserMetadata", "it has more than %d characters", maxMetadata)
	}
	return n
}

// refuseUnsupported refuses what would change how an entity works, rather than silently not keep it.
func (d *description) refuseUnsupported(r *reader) {
	if status, ok := given(d.Status); ok && status != "Active" {
		r.refuse("Status", "%q is not supported by this emulator; Active is", status)
	}
	if d.AuthorizationRules != nil && len(d.AuthorizationRules.Rules) > 0 {
		r.refuse("AuthorizationRules", "this emulator does not support them; its keys are those it was started with")
	}
}

// describe is the reverse of settings, with what is true of the entity now.
func describe(kind kind, host string, s Settings, i Info) *description {
	d := &description{
		Space: busSpace, InstanceSpace: instanceSpace,
		DefaultMessageTimeToLive: ptr(FormatDuration(s.DefaultTTL)), AutoDeleteOnIdle: ptr(FormatDuration(s.AutoDeleteOnIdle)),
		EnableBatchedOperations: flag(!s.Notes.DisableBatchedOperations), Status: ptr("Active"),
		EntityAvailabilityStatus: ptr("Available"), EnablePartitioning: flag(s.Notes.EnablePartitioning),
		CreatedAt: ptr(timestamp(i.CreatedAt)), UpdatedAt: ptr(timestamp(i.UpdatedAt)), AccessedAt: ptr(timestamp(i.AccessedAt)),
		CountDetails: &countDetails{
			Space: countSpace, Active: i.Active, DeadLetter: i.DeadLetter, Scheduled: i.Scheduled,
			Transfer: i.Transfer, TransferDeadLetter: i.TransferDeadLetter,
		},
	}
	if s.Notes.UserMetadata != "" {
		d.UserMetadata = &s.Notes.UserMetadata
	}
	if kind != topics {
		d.describeReceiving(host, s, i)
	}
	if kind != subscriptions {
		d.describeSending(s, i)
	}
	switch kind {
	case topics:
		d.SubscriptionCount = number(i.Subscriptions)
	case subscriptions:
		d.DeadLetteringOnFilterEvaluationExceptions = flag(s.Notes.DeadLetterOnFilterFailure)
	}
	return d
}

func (d *description) describeReceiving(host string, s Settings, i Info) {
	d.LockDuration, d.MaxDeliveryCount = ptr(FormatDuration(s.LockDuration)), number(s.MaxDeliveryCount)
	d.RequiresSession, d.DeadLetteringOnMessageExpiration = flag(s.RequiresSession), flag(s.DeadLetterOnExpiration)
	d.ForwardTo, d.ForwardDeadLetteredMessagesTo = targetURI(s.Notes.ForwardScheme, host, s.ForwardTo), targetURI(s.Notes.ForwardDeadLettersScheme, host, s.ForwardDeadLettersTo)
	d.MessageCount = number(i.Active + i.DeadLetter + i.Scheduled + i.Transfer + i.TransferDeadLetter)
}

func (d *description) describeSending(s Settings, i Info) {
	window := s.DuplicateWindow
	if window == 0 {
		window = defaultWindow
	}
	d.DuplicateDetectionHistoryTimeWindow = ptr(FormatDuration(window))
	d.RequiresDuplicateDetection = flag(s.DuplicateWindow > 0)
	d.MaxSizeInMegabytes, d.MaxMessageSizeInKilobytes = number(s.MaxSizeInMegabytes), number(s.MaxMessageKilobytes)
	d.SizeInBytes, d.IsAnonymousAccessible = number(int(i.Size)), flag(false)
	d.SupportOrdering, d.EnableExpress = flag(!s.Notes.DisableOrdering), flag(s.Notes.EnableExpress)
}

func targetURI(scheme, host, path string) *string {
	if path == "" {
		return nil
	}
	return ptr((&url.URL{Scheme: cmp.Or(scheme, "https"), Host: host, Path: "/" + path}).String())
}

func ptr[T any](v T) *T    { return &v }
func flag(v bool) *string  { return ptr(strconv.FormatBool(v)) }
func number(v int) *string { return ptr(strconv.Itoa(v)) }
