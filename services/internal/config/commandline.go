package config

import (
	"errors"
	"flag"
	"strings"
)

// CommandLine is what every service's command line holds.
type CommandLine struct {
	// File is the YAML file of -config; empty for none.
	File string
	// Sets are the key=value pairs of -set, in order.
	Sets []string
	// CheckOnly is -check-config: load and check, start nothing.
	CheckOnly bool
}

// Flags defines -config, -set and -check-config.
func Flags(flags *flag.FlagSet) *CommandLine {
	line := &CommandLine{}
	flags.StringVar(&line.File, "config", "", "YAML `file` with settings")
	flags.Func("set", "one setting as `key=value` (repeatable), for example grpc.listen=127.0.0.1:0", func(text string) error {
		if !strings.Contains(text, "=") {
			return errors.New("must be key=value")
		}
		line.Sets = append(line.Sets, text)
		return nil
	})
	flags.BoolVar(&line.CheckOnly, "check-config", false, "check the settings and what they point to, start nothing")
	return line
}
