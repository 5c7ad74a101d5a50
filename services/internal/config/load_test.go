package config

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

type sample struct {
	GRPC struct {
		Listen string `config:"listen"`
		TLS    struct {
			CertFile string `config:"certFile"`
		} `config:"tls"`
	} `config:"grpc"`
	Limits   limits            `config:"limits"`
	Key      Secret            `config:"key"`
	Hosts    []string          `config:"hosts"`
	Defaults map[string]string `config:"defaults"`
	Untagged string
	Logger   func() `config:"-"`
	hidden   string
}

type limits struct {
	Timeout time.Duration `config:"timeout"`
	Count   int           `config:"count"`
	Wide    int64         `config:"wide"`
	Share   float64       `config:"share"`
	Strict  bool          `config:"strict"`
}

func defaults() sample {
	cfg := sample{Untagged: "kept", hidden: "kept"}
	cfg.GRPC.Listen = "127.0.0.1:1"
	cfg.Limits = limits{Timeout: time.Second, Count: 1, Share: 0.5}
	cfg.Hosts = []string{"a", "b", "c"}
	return cfg
}

func written(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "service.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const full = `
grpc:
  listen: 127.0.0.1:2
  tls:
limits: {timeout: 1m30s, count: 7, wide: -9000000000, share: 0.25, strict: true}
key: fake-key
hosts: [x, "y"]
defaults:
  Region: north
  Dotted.Name: "1"
untagged: 5
`

func TestLoadReadsEveryKindOfSetting(t *testing.T) {
	cfg := defaults()
	if err := Load(&cfg, Options{File: written(t, full)}); err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.GRPC.Listen = "127.0.0.1:2"
	want.Limits = limits{90 * time.Second, 7, -9_000_000_000, 0.25, true}
	want.Key, want.Hosts, want.Untagged = "fake-key", []string{"x", "y"}, "5"
	want.Defaults = map[string]string{"Region": "north", "Dotted.Name": "1"}
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("read %#v", cfg)
	}
}

func TestLaterSourcesWin(t *testing.T) {
	cfg := defaults()
	err := Load(&cfg, Options{
		File:      written(t, "grpc.listen: file:1\nlimits: {count: 2, wide: 2, share: 2}\ndefaults: {a: file, b: file}\n"),
		EnvPrefix: "SAMPLE",
		Environ: []string{
			"SAMPLE_LIMITS_COUNT=3", "SAMPLE_LIMITS_WIDE=3", "SAMPLE_HOSTS=p, q", "SAMPLE_GRPC_TLS_CERTFILE=a=b", "OTHER_KEY=x", "SAMPLED=x",
		},
		Sets: []string{"limits.count=4", "defaults.b=set", "defaults.c.d=e=f", "limits.count=5"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.GRPC.Listen != "file:1" || cfg.Limits != (limits{time.Second, 5, 3, 2, false}) || cfg.GRPC.TLS.CertFile != "a=b" {
		t.Errorf("read %+v", cfg)
	}
	if want := map[string]string{"a": "file", "b": "set", "c.d": "e=f"}; !reflect.DeepEqual(cfg.Defaults, want) {
		t.Errorf("read %v", cfg.Defaults)
	}
	if want := []string{"p", "q"}; !reflect.DeepEqual(cfg.Hosts, want) {
		t.Errorf("read %v", cfg.Hosts)
	}
}

func TestNothingGivenKeepsTheDefaults(t *testing.T) {
	for _, text := range []string{"", "# only a comment\n", "---\n", "grpc:\n"} {
		cfg := defaults()
		if err := Load(&cfg, Options{File: written(t, text), EnvPrefix: "SAMPLE"}); err != nil || !reflect.DeepEqual(cfg, defaults()) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Every refusal names the key, where it came from, and what was perhaps meant.
func TestI17_BadSettingsAreRefusedByName(t *testing.T) {
	for name, row := range map[string]struct {
		options Options
		file    string
		want    []string
	}{
		"unknown in the file":     {file: "grpc:\n  listne: x\n", want: []string{"grpc.listne: no such setting", "service.yaml line 2", "nearest are grpc.listen"}},
		"unknown group":           {file: "grcp:\n  listen: x\n", want: []string{"grcp: no such setting", "line 1"}},
		"case counts":             {file: "limits: {Count: 1}", want: []string{"limits.Count: no such setting", "limits.count"}},
		"unknown in the env":      {options: Options{Environ: []string{"SAMPLE_GRPC_LISTNE=x"}}, want: []string{"SAMPLE_GRPC_LISTNE: no such setting", "environment", "SAMPLE_GRPC_LISTEN"}},
		"unknown in -set":         {options: Options{Sets: []string{"limit.count=1"}}, want: []string{"limit.count: no such setting", "-set", "limits.count"}},
		"a group in -set":         {options: Options{Sets: []string{"limits=1"}}, want: []string{"limits: is a group", "-set", "limits."}},
		"a table in the env":      {options: Options{Environ: []string{"SAMPLE_DEFAULTS=x"}}, want: []string{"defaults: must be a mapping", "SAMPLE_DEFAULTS"}},
		"no equals sign":          {options: Options{Sets: []string{"limits.count"}}, want: []string{"-set", "limits.count", "key=value"}},
		"not settable":            {file: "logger: x", want: []string{"logger: no such setting"}},
		"hidden":                  {file: "hidden: x", want: []string{"hidden: no such setting"}},
		"duration without unit":   {file: "limits: {timeout: 30}", want: []string{"limits.timeout: must be a duration", `"30"`, "line 1"}},
		"duration in -set":        {options: Options{Sets: []string{"limits.timeout=soon"}}, want: []string{"limits.timeout", "soon", "-set"}},
		"not a number":            {options: Options{Environ: []string{"SAMPLE_LIMITS_COUNT=many"}}, want: []string{"limits.count: must be a whole number", "SAMPLE_LIMITS_COUNT"}},
		"a fraction":              {file: "limits: {count: 1.5}", want: []string{"limits.count: must be a whole number"}},
		"too large":               {file: "limits: {wide: 9223372036854775808}", want: []string{"limits.wide"}},
		"empty number":            {options: Options{Sets: []string{"limits.count="}}, want: []string{"limits.count"}},
		"not a share":             {file: "limits: {share: half}", want: []string{"limits.share: must be a number"}},
		"not a bool":              {file: "limits: {strict: yes}", want: []string{"limits.strict: must be true or false", `"yes"`}},
		"a list for one":          {file: "limits: {count: [1]}", want: []string{"limits.count: must be a single value"}},
		"a mapping for one":       {file: "key: {a: b}", want: []string{"key: must be a single value"}},
		"one for a group":         {file: "limits: 5", want: []string{"limits: is a group", "line 1"}},
		"a mapping for a list":    {file: "hosts: {a: b}", want: []string{"hosts: must be a list"}},
		"a list of lists":         {file: "hosts: [[a]]", want: []string{"hosts: must be a list of single values"}},
		"deep table":              {file: "defaults: {a: {b: c}}", want: []string{"defaults: a must be a single value"}},
		"twice in a table":        {file: "defaults:\n  a: x\n  a: y\n", want: []string{"a", "set twice"}},
		"no value":                {file: "key:\n", want: []string{"key: has no value"}},
		"an alias":                {file: "hosts: &h [a]\nkey: *h\n", want: []string{"key: is an alias"}},
		"set twice":               {file: "key: a\nlimits: {count: 1}\nkey: b\n", want: []string{"key", "set twice, in lines 1 and 3"}},
		"set twice, once dotted":  {file: "limits: {count: 1}\nlimits.count: 2\n", want: []string{"limits.count: is set twice"}},
		"not a mapping":           {file: "- a\n", want: []string{"-config", "line 1", "mapping"}},
		"two documents":           {file: "key: a\n---\nkey: b\n", want: []string{"-config", "one YAML document"}},
		"not YAML":                {file: "key: [", want: []string{"-config", "service.yaml", "line 1"}},
		"everything at once":      {file: "a: 1\nlimits: {count: x}\n", want: []string{"a: no such", "limits.count: must"}},
		"file and flags together": {file: "a: 1\n", options: Options{Sets: []string{"b=2"}}, want: []string{"a: no such", "b: no such"}},
	} {
		t.Run(name, func(t *testing.T) {
			if row.file != "" {
				row.options.File = written(t, row.file)
			}
			row.options.EnvPrefix = "SAMPLE"
			cfg := defaults()
			err := Load(&cfg, row.options)
			if err == nil {
				t.Fatalf("taken as %+v", cfg)
			}
			for _, part := range row.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
	cfg := defaults()
	if err := Load(&cfg, Options{File: filepath.Join(t.TempDir(), "none.yaml")}); err == nil || !strings.Contains(err.Error(), "-config") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestNoErrorShowsASecret(t *testing.T) {
	for _, options := range []Options{
		{File: written(t, "key: [hush-hush]\n")},
		{File: written(t, "key: {a: hush-hush}\n")},
		{File: written(t, "keey: hush-hush\n")},
		{Sets: []string{"keey=hush-hush"}},
		{EnvPrefix: "SAMPLE", Environ: []string{"SAMPLE_KEEY=hush-hush"}},
	} {
		cfg := defaults()
		if err := Load(&cfg, options); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%+v: %v", options, err)
		}
	}
}

// Kubernetes sets variables for every Service; one named like ours must not stop the start.
func TestServiceLinksAreNobodysSettings(t *testing.T) {
	links := []string{
		"SAMPLE_SERVICE_HOST=10.0.0.1", "SAMPLE_SERVICE_PORT=7410", "SAMPLE_SERVICE_PORT_GRPC=7410", "SAMPLE_PORT=tcp://10.0.0.1:7410",
		"SAMPLE_PORT_7410_TCP=tcp://10.0.0.1:7410", "SAMPLE_PORT_7410_TCP_PROTO=tcp", "SAMPLE_PORT_7410_TCP_PORT=7410", "SAMPLE_PORT_7410_TCP_ADDR=10.0.0.1",
		"SAMPLE_ADMIN_SERVICE_HOST=10.0.0.2", "SAMPLE_ADMIN_PORT=tcp://10.0.0.2:1",
	}
	cfg := defaults()
	if err := Load(&cfg, Options{EnvPrefix: "SAMPLE", Environ: links}); err != nil {
		t.Error(err)
	}
	for _, typed := range []string{"SAMPLE_PORT=8080", "SAMPLE_SERVICEHOST=x", "SAMPLE_="} {
		if err := Load(&cfg, Options{EnvPrefix: "SAMPLE", Environ: []string{typed}}); err == nil {
			t.Errorf("%s is taken for a service link", typed)
		}
	}
}

func TestFlags(t *testing.T) {
	flags := flag.NewFlagSet("x", flag.ContinueOnError)
	flags.SetOutput(&strings.Builder{})
	line := Flags(flags)
	if err := flags.Parse([]string{"-config", "f", "-set", "a=b=c", "-set", "d=", "-check-config"}); err != nil {
		t.Fatal(err)
	}
	if want := (CommandLine{File: "f", Sets: []string{"a=b=c", "d="}, CheckOnly: true}); !reflect.DeepEqual(*line, want) {
		t.Errorf("read %+v", *line)
	}
	if err := flags.Parse([]string{"-set", "a"}); err == nil || !strings.Contains(err.Error(), "key=value") {
		t.Errorf("a pair without a value: %v", err)
	}
}

func TestDistance(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"kitten", "sitting", 3}, {"listne", "listen", 2}} {
		if got := distance(row.a, row.b); got != row.want {
			t.Errorf("%q to %q: %d", row.a, row.b, got)
		}
	}
}

// Whatever a file holds: settings or an error, and what is taken was well formed.
func FuzzParseFile(f *testing.F) {
	for _, seed := range []string{full, "a: &a [*a]", "? {a: b}\n: c", "limits: {timeout: 1s, <<: {count: 1}}", "\x00", "key: !!binary aGk=", "%YAML 9.9\n---\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		cfg := defaults()
		known := fieldsOf(reflect.ValueOf(&cfg).Elem(), "")
		settings, err := parseFile(raw, "f", known)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, one := range settings {
			if seen[one.key] {
				t.Errorf("%s comes twice", one.key)
			}
			seen[one.key] = true
			_ = known.apply(one)
		}
	})
}
