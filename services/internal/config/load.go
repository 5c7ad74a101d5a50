package config

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

const delimiter = "."

// Options says where settings come from.
type Options struct {
	// EnvPrefix is the prefix of environment variables, without the underscore: with "REGISTRY", REGISTRY_GRPC_LISTEN is
	// grpc.listen. Empty: the environment is not read.
	EnvPrefix string
	// File is a YAML file; empty for none.
	File string
	// Sets are key=value pairs, which win over everything.
	Sets []string
	// Environ is the environment, as os.Environ gives it.
	Environ []string
}

// setting is one value on its way into its field.
type setting struct {
	key    string
	source string // where it comes from, for people: "registry.yaml line 3"
	value  value
}

// Load fills cfg, a pointer to a struct that holds the defaults. Errors name the key and where it came from; after an error
// cfg is not to be used.
func Load(cfg any, opts Options) error {
	known := fieldsOf(reflect.ValueOf(cfg).Elem(), "")
	var problems Problems
	var settings []setting
	if opts.File != "" {
		found, err := readFile(opts.File, known)
		problems.AddError(err)
		settings = append(settings, found...)
	}
	if opts.EnvPrefix != "" {
		settings = append(settings, fromEnvironment(opts, known, &problems)...)
	}
	for _, pair := range opts.Sets {
		key, text, found := strings.Cut(pair, "=")
		if !found {
			problems.Add("-set", "%q must be key=value", key)
			continue
		}
		settings = append(settings, setting{key: key, source: "-set", value: scalar(text)})
	}
	for _, one := range settings {
		problems.AddError(known.apply(one))
	}
	return problems.Err()
}

func fromEnvironment(opts Options, known fields, problems *Problems) []setting {
	var settings []setting
	for _, entry := range opts.Environ {
		name, text, _ := strings.Cut(entry, "=")
		rest, ours := strings.CutPrefix(name, opts.EnvPrefix+"_")
		if !ours {
			continue
		}
		key, ok := known.ofVariable(rest)
		switch {
		case ok:
			settings = append(settings, setting{key: key, source: "environment variable " + name, value: scalar(text)})
		case !isServiceLink(rest, text):
			problems.Add(name, "no such setting (from the environment); %s", known.hint(rest, func(key string) string {
				return opts.EnvPrefix + "_" + variable(key)
			}))
		}
	}
	return settings
}

var (
	serviceLink = regexp.MustCompile(`^(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	portLink    = regexp.MustCompile(`^(.+_)?PORT$`)
	portURL     = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// isServiceLink recognises the variables that Kubernetes sets for Services whose names begin like ours; they are nobody's settings.
func isServiceLink(rest, text string) bool {
	return serviceLink.MatchString(rest) || (portLink.MatchString(rest) && portURL.MatchString(text))
}

// variable is a key as environment variables spell it: upper case, with underscores for dots and none within words.
func variable(key string) string { return strings.ToUpper(strings.ReplaceAll(key, delimiter, "_")) }

func (f fields) ofVariable(rest string) (string, bool) {
	for key := range f {
		if variable(key) == rest {
			return key, true
		}
	}
	return "", false
}

// nearKeys is how many keys a hint names.
const nearKeys = 3

// hint names the settings that were perhaps meant, spelled as the source spells them.
func (f fields) hint(wrong string, spell func(string) string) string {
	type candidate struct {
		name string
		far  int
	}
	candidates := make([]candidate, 0, len(f))
	for key := range f {
		far := distance(strings.ToUpper(strings.ReplaceAll(wrong, delimiter, "_")), variable(key))
		candidates = append(candidates, candidate{spell(key), far})
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.far, b.far), strings.Compare(a.name, b.name))
	})
	var names []string
	for _, one := range candidates[:min(nearKeys, len(candidates))] {
		names = append(names, one.name)
	}
	return "the nearest are " + strings.Join(names, ", ")
}

// distance is how many letters are inserted, left out or replaced between two words (Levenshtein's).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
