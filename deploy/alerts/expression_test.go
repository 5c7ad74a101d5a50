package alerts

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// metrics are those that alerts and their texts may use, with their labels. Those with the label le are histograms.
var metrics = map[string][]string{
	"commandcenter_availability_lease_held":                          {},
	"commandcenter_availability_last_sweep_timestamp_seconds":        {},
	"commandcenter_availability_sweeps_total":                        {"result"},
	"commandcenter_availability_sweep_duration_seconds":              {"le"},
	"commandcenter_availability_path_frozen_since_timestamp_seconds": {"path", "reason"},
	"commandcenter_availability_path_braked_since_timestamp_seconds": {"path"},
	"commandcenter_availability_held_servers":                        {"path", "why"},
	"commandcenter_availability_servers":                             {"verdict", "online"},
	"commandcenter_availability_transitions_total":                   {"to", "reason"},
	"commandcenter_availability_second_writer_total":                 {},
	"commandcenter_availability_disagreements":                       {},
	"commandcenter_availability_mode":                                {"mode"},
	"commandcenter_availability_probes_total":                        {"outcome"},

	"commandcenter_database_clock_steps_total":           {"direction"},
	"commandcenter_heartbeat_clock_ahead_seconds":        {"clock"},
	"commandcenter_heartbeat_clock_uncertainty_seconds":  {"clock"},
	"commandcenter_ingest_heartbeats_total":              {"result"},
	"commandcenter_ingest_dead_lettered_total":           {"reason"},
	"commandcenter_ingest_lag_seconds":                   {"le"},
	"commandcenter_ingest_registry_duration_seconds":     {"le"},
	"commandcenter_ingest_registry_failures_total":       {},
	"commandcenter_ingest_held_messages":                 {},
	"commandcenter_ingress_calls_total":                  {"method", "reason"},
	"commandcenter_ingress_busy_total":                   {"cause"},
	"commandcenter_ingress_heartbeats_total":             {"result"},
	"commandcenter_ingress_lag_seconds":                  {"le"},
	"commandcenter_ingress_registry_duration_seconds":    {"le"},
	"commandcenter_ingress_registry_failures_total":      {},
	"commandcenter_ingress_takes_agents":                 {},
	"commandcenter_registry_agents":                      {"state"},
	"commandcenter_registry_agents_receiver_suspect":     {},
	"commandcenter_registry_astray_agents":               {},
	"commandcenter_registry_control_servers":             {"state"},
	"commandcenter_registry_control_server_agents":       {"control_server"},
	"commandcenter_registry_evictions_frozen":            {},
	"commandcenter_registry_partitions_total":            {"result"},
	"commandcenter_registry_cloud_look_failures_total":   {},
	"commandcenter_check_passed":                         {"service", "check"},
	"commandcenter_grpc_server_duration_seconds":         {"method", "code", "le"},
	"commandcenter_gateway_commands_total":               {"operation", "transport", "outcome"},
	"commandcenter_gateway_commands_in_flight":           {},
	"commandcenter_gateway_late_replies_total":           {"outcome"},
	"commandcenter_gateway_reply_path_proof_age_seconds": {},
	"commandcenter_rest_duration_seconds":                {"route", "method", "status", "le"},
}

// target are the labels that every series gets from where it was scraped.
var target = []string{"namespace", "instance"}

// expression is what these tests understand of an alert's expression.
type expression struct {
	text  string
	used  map[string][]string // by series, the labels it is selected by
	kept  []string            // labels of the result
	named []string            // labels that series are grouped or matched by
}

var (
	quoted   = regexp.MustCompile(`"[^"]*"`)
	grouping = regexp.MustCompile(`\b(by|on)\s*\(([^()]*)\)`)
	window   = regexp.MustCompile(`\[[^\]]*\]|\boffset\s+\w+`)
	operand  = regexp.MustCompile(`\b([a-zA-Z_]\w*)\s*(\{[^}]*\}|\()?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	operator = []string{"and", "or", "unless", "group_left"}
)

// read takes an expression apart: texts, groupings and windows go first, so that what is left are series, functions and operators.
func read(expr string) expression {
	found := expression{text: expr, used: map[string][]string{}}
	rest := quoted.ReplaceAllString(expr, `""`)
	for _, group := range grouping.FindAllStringSubmatch(rest, -1) {
		labels := strings.FieldsFunc(group[2], func(r rune) bool { return r == ',' || r == ' ' })
		found.named = append(found.named, labels...)
		if group[1] == "by" {
			found.kept = append(found.kept, labels...)
		}
	}
	rest = window.ReplaceAllString(grouping.ReplaceAllString(rest, " "), " ")
	for _, match := range operand.FindAllStringSubmatch(rest, -1) {
		name, after := match[1], match[2]
		if after == "(" || slices.Contains(operator, name) {
			continue
		}
		if _, ok := found.used[name]; !ok {
			found.used[name] = nil
		}
		for _, label := range matcher.FindAllStringSubmatch(after, -1) {
			found.used[name] = append(found.used[name], label[1])
		}
	}
	return found
}

// problems are a small part of what Prometheus checks, and what it cannot: whether series and labels exist.
func (e expression) problems() []string {
	var found []string
	for _, pair := range []string{"()", "[]", "{}"} {
		if strings.Count(e.text, pair[:1]) != strings.Count(e.text, pair[1:]) {
			found = append(found, "brackets "+pair+" do not match")
		}
	}
	for _, brackets := range regexp.MustCompile(`\[([^\]]*)\]`).FindAllStringSubmatch(e.text, -1) {
		if brackets[1] == "" || !duration.MatchString(brackets[1]) {
			found = append(found, brackets[0]+" is no window")
		}
	}
	if len(e.used) == 0 {
		found = append(found, "it asks for nothing")
	}
	known := slices.Clone(target)
	for name, selected := range e.used {
		labels, ok := labelsOf(name)
		if !ok {
			found = append(found, "no service exports "+name)
		}
		known = append(known, labels...)
		for _, label := range selected {
			if !slices.Contains(labels, label) {
				found = append(found, fmt.Sprintf("%s has no label %s", name, label))
			}
		}
	}
	for _, label := range e.named {
		if !slices.Contains(known, label) {
			found = append(found, "no series here has a label "+label)
		}
	}
	return found
}

// labelsOf tells the labels of a series. A histogram has three, by suffix, of which only the buckets have le.
func labelsOf(name string) ([]string, bool) {
	if labels, ok := metrics[name]; ok {
		return labels, !slices.Contains(labels, "le")
	}
	base, bucket := strings.CutSuffix(name, "_bucket")
	if !bucket {
		base = strings.TrimSuffix(strings.TrimSuffix(name, "_count"), "_sum")
	}
	labels := metrics[base]
	if !slices.Contains(labels, "le") {
		return nil, false
	}
	return slices.DeleteFunc(slices.Clone(labels), func(label string) bool { return label == "le" && !bucket }), true
}

func TestExpressionsAskForWhatThereIs(t *testing.T) {
	forEachRule(t, func(t *testing.T, one rule) {
		for _, problem := range read(one.Expr).problems() {
			t.Error(problem)
		}
	})
}

// TestMetricsAreExported looks for each metric of the list in the services' sources: an alert on a series that nobody exports
// never fires, and nobody notices.
func TestMetricsAreExported(t *testing.T) {
	missing := maps.Clone(metrics)
	err := filepath.WalkDir(filepath.Join("..", "..", "services"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		maps.DeleteFunc(missing, func(name string, _ []string) bool { return strings.Contains(string(source), `"`+name+`"`) })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("no service exports %s", name)
	}
}

// TestTextsNameMetricsThatExist reads what people are told to look at, here and in the instructions of deploy.
func TestTextsNameMetricsThatExist(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, name := range append(files, "../GOING-LIVE.md", "../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, metric := range regexp.MustCompile(`\b\w+_(?:total|seconds)\b`).FindAllString(string(text), -1) {
			named++
			if _, known := metrics[metric]; !known {
				t.Errorf("%s: no service exports %s", name, metric)
			}
		}
	}
	if named == 0 {
		t.Error("no text names a metric")
	}
}
