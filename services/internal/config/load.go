package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
)

const (
	tag       = "config"
	delimiter = "."
)

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

// Load fills cfg, a pointer to a struct that holds the defaults. Errors name the key and where it came from.
func Load(cfg any, opts Options) error {
	known := keysOf(reflect.TypeOf(cfg).Elem(), "")
	merged := koanf.New(delimiter)
	var problems Problems
	if opts.File != "" {
		problems.AddError(mergeFile(merged, known, opts.File))
	}
	if opts.EnvPrefix != "" {
		problems.AddError(mergeEnvironment(merged, known, opts))
	}
	for _, pair := range opts.Sets {
		key, value, _ := strings.Cut(pair, "=")
		problems.AddError(merge(merged, known, "-set", map[string]any{key: value}))
	}
	if err := problems.Err(); err != nil {
		return err
	}
	return decode(merged.Raw(), cfg)
}

func mergeFile(into *koanf.Koanf, known keys, path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("-config: %w", err)
	}
	file := koanf.New(delimiter)
	if err := file.Load(rawbytes.Provider(raw), yaml.Parser()); err != nil {
		return fmt.Errorf("-config: %s is not YAML: %w", path, err)
	}
	return merge(into, known, path, file.All())
}

func mergeEnvironment(into *koanf.Koanf, known keys, opts Options) error {
	found := map[string]any{}
	var problems Problems
	for _, entry := range opts.Environ {
		name, value, _ := strings.Cut(entry, "=")
		rest, ours := strings.CutPrefix(name, opts.EnvPrefix+"_")
		if !ours || isServiceLink(rest) {
			continue
		}
		key, ok := known.ofEnvironment(rest)
		if !ok {
			problems.Add(name, "no such setting (from the environment); settings are %s", strings.Join(known.names(), ", "))
			continue
		}
		found[key] = value
	}
	problems.AddError(merge(into, known, "the environment", found))
	return problems.Err()
}

// isServiceLink recognises the variables that Kubernetes sets for a Service of the same name, which are nobody's settings.
func isServiceLink(rest string) bool {
	return strings.HasPrefix(rest, "SERVICE_HOST") || strings.HasPrefix(rest, "SERVICE_PORT") || rest == "PORT" || strings.HasPrefix(rest, "PORT_")
}

func merge(into *koanf.Koanf, known keys, source string, flat map[string]any) error {
	var problems Problems
	for key := range flat {
		if !known.has(key) {
			problems.Add(key, "no such setting (from %s); settings are %s", source, strings.Join(known.names(), ", "))
		}
	}
	if err := problems.Err(); err != nil {
		return err
	}
	return into.Load(confmap.Provider(flat, delimiter), nil)
}

func decode(raw map[string]any, cfg any) error {
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		TagName: tag, Result: cfg, WeaklyTypedInput: true, ErrorUnused: true,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			mapstructure.StringToTimeDurationHookFunc(), mapstructure.StringToSliceHookFunc(",")),
	})
	if err != nil {
		return err
	}
	if err := decoder.Decode(raw); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "decoding failed due to the following error(s):", "settings that cannot be read:"))
	}
	return nil
}

// keys maps each setting to whether it holds a map with keys of the operator's own.
type keys map[string]bool

func keysOf(structure reflect.Type, prefix string) keys {
	found := keys{}
	for i := range structure.NumField() {
		field := structure.Field(i)
		name := field.Tag.Get(tag)
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" {
			name = string(unicode.ToLower(rune(field.Name[0]))) + field.Name[1:]
		}
		switch field.Type.Kind() {
		case reflect.Struct:
			for key, open := range keysOf(field.Type, prefix+name+delimiter) {
				found[key] = open
			}
		default:
			found[prefix+name] = field.Type.Kind() == reflect.Map
		}
	}
	return found
}

func (k keys) has(key string) bool {
	if _, ok := k[key]; ok {
		return true
	}
	for name, open := range k {
		if open && strings.HasPrefix(key, name+delimiter) {
			return true
		}
	}
	return false
}

// ofEnvironment finds the key of an environment variable's rest: upper case, with underscores for dots and none within words.
func (k keys) ofEnvironment(rest string) (string, bool) {
	for key := range k {
		if strings.ToUpper(strings.ReplaceAll(key, delimiter, "_")) == rest {
			return key, true
		}
	}
	return "", false
}

func (k keys) names() []string {
	names := make([]string, 0, len(k))
	for name := range k {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
