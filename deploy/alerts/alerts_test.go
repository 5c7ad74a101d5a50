package alerts

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// rule is one alert, as Prometheus reads it.
type rule struct {
	Alert         string            `yaml:"alert"`
	Expr          string            `yaml:"expr"`
	For           string            `yaml:"for"`
	KeepFiringFor string            `yaml:"keep_firing_for"`
	Labels        map[string]string `yaml:"labels"`
	Annotations   map[string]string `yaml:"annotations"`
}

type ruleFile struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	} `yaml:"groups"`
}

// decode reads one rule file; unknown fields and duplicate keys are refused.
func decode(raw []byte) (ruleFile, error) {
	var file ruleFile
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	return file, decoder.Decode(&file)
}

// forEachRule runs a check of every alert of every file. Each file holds one group, named as the file is.
func forEachRule(t *testing.T, check func(*testing.T, rule)) {
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) != 5 {
		t.Fatalf("expected a file for each of the four services, and one for the cloud of control servers, got %v %v", files, err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := decode(raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(file.Groups) != 1 || file.Groups[0].Name+".yaml" != name || len(file.Groups[0].Rules) == 0 {
			t.Fatalf("%s: expected one group of alerts with the name of the file", name)
		}
		for _, one := range file.Groups[0].Rules {
			t.Run(one.Alert, func(t *testing.T) { check(t, one) })
		}
	}
}

var (
	alertName = regexp.MustCompile(`^([A-Z][a-z]+)+$`)
	duration  = regexp.MustCompile(`^([1-9][0-9]*[smhd])?$`)
)

func TestEveryAlertSaysWhatItMeansAndWhatToDo(t *testing.T) {
	seen := map[string]bool{}
	forEachRule(t, func(t *testing.T, one rule) {
		if !alertName.MatchString(one.Alert) || seen[one.Alert] {
			t.Errorf("its name is %q, or is there twice", one.Alert)
		}
		seen[one.Alert] = true
		if !duration.MatchString(one.For) || !duration.MatchString(one.KeepFiringFor) {
			t.Errorf("no durations: for %q, keep_firing_for %q", one.For, one.KeepFiringFor)
		}
		if len(one.Labels) != 1 || !slices.Contains([]string{"critical", "warning", "info"}, one.Labels["severity"]) {
			t.Errorf("its only label must be severity: critical, warning or info; is %v", one.Labels)
		}
		for _, key := range []string{"summary", "description", "action"} {
			if text := one.Annotations[key]; len(text) < 20 || !strings.HasSuffix(text, ".") {
				t.Errorf("%s is no sentence: %q", key, text)
			}
		}
		if len(one.Annotations) != 3 {
			t.Errorf("annotations beside summary, description and action: %v", one.Annotations)
		}
	})
}

func TestTextsKnowTheirLabels(t *testing.T) {
	forEachRule(t, func(t *testing.T, one rule) {
		labels := map[string]string{}
		for _, label := range read(one.Expr).kept {
			labels[label] = "x"
		}
		for key, text := range one.Annotations {
			if err := expand(text, labels); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	})
}

// expand fills in a text as Prometheus does; a label that the alert does not have is an error.
func expand(text string, labels map[string]string) error {
	show := func(float64) string { return "x" }
	parsed, err := template.New("").Option("missingkey=error").
		Funcs(template.FuncMap{"humanizeDuration": show, "humanizeTimestamp": show}).
		Parse("{{$labels := .Labels}}{{$value := .Value}}" + text)
	if err != nil {
		return err
	}
	return parsed.Execute(&bytes.Buffer{}, struct {
		Labels map[string]string
		Value  float64
	}{labels, 1})
}

// TestTheChecksRefuse makes sure that the tests here could fail.
func TestTheChecksRefuse(t *testing.T) {
	if _, err := decode([]byte("groups: [{name: x, rules: [{alert: X, expression: up}]}]")); err == nil || !strings.Contains(err.Error(), "expression") {
		t.Errorf("a misspelt field: %v", err)
	}
	if err := expand("{{ $labels.paht }}", map[string]string{"path": "bus"}); err == nil {
		t.Error("a misspelt label of a text is not noticed")
	}
	for expr, says := range map[string]string{
		`sum(commandcenter_availability_sweeps_total`:                        "brackets",
		`commandcenter_availability_sweep_total > 0`:                         "commandcenter_availability_sweep_total",
		`commandcenter_availability_sweeps_total{reason="done"}`:             "reason",
		`sum by (path) (commandcenter_availability_sweeps_total)`:            "path",
		`rate(commandcenter_availability_sweeps_total[5])`:                   "[5]",
		`commandcenter_availability_sweep_duration_seconds > 1`:              "commandcenter_availability_sweep_duration_seconds",
		`histogram_quantile(.9, commandcenter_availability_mode_bucket) > 1`: "commandcenter_availability_mode_bucket",
	} {
		if problems := strings.Join(read(expr).problems(), "; "); !strings.Contains(problems, says) {
			t.Errorf("%s: %q", expr, problems)
		}
	}
}
