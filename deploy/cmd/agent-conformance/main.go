// Command agent-conformance drives the contract of agent/README.md against a running agent, in whatever language it is written, and reports
// each rule. It ends with 1 if one is broken.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/commandcenter/fleet/deploy/conformance"
	"github.com/commandcenter/fleet/deploy/entities"
	servicebusemulator "github.com/commandcenter/fleet/servicebus-emulator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "agent-conformance:", err)
		os.Exit(1)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// settings are what the command line says beside the options of the check.
type settings struct {
	options                                        conformance.Options
	connectionFile, listen, program, dir, agentLog string
	restartCommand, tokenFile                      string
}

func parse(args []string) (s settings, err error) {
	flags := flag.NewFlagSet("agent-conformance", flag.ContinueOnError)
	flags.StringVar(&s.options.Name, "name", "", "the agent's `name`; required")
	flags.DurationVar(&s.options.Interval, "interval", 30*time.Second, "how often the agent sends heartbeats")
	flags.DurationVar(&s.options.Patience, "patience", time.Minute, "how long an answer may take before it is missing")
	flags.StringVar(&s.options.Write, "write", "", "`operation` of a write that may be carried out many times, such as {\"restartService\":{\"service\":\"Spooler\"}}; "+
		"empty: one that names what no machine has, which changes nothing")
	flags.StringVar(&s.options.SlowWrite, "slow-write", "", "`operation` of a write that takes 6 s or more; empty: rules about two commands at once are not tried")
	flags.StringVar(&s.options.OwnService, "own-service", "", "`name` of the service that the agent runs as; empty: its restart is not tried")
	flags.StringVar(&s.options.BaseURL, "base-url", "", "`URL` at which the agent serves HTTP; empty: HTTP is not tried")
	only := flags.String("only", "", "`rules` to try, such as 6,7.1; empty: all")
	flags.StringVar(&s.tokenFile, "token-file", "", "`file` with the bearer token of the agent's HTTP; empty: none")
	flags.StringVar(&s.connectionFile, "connection-string-file", "", "`file` with the connection string of a namespace that no heartbeat service listens to; "+
		"empty: an emulator is started")
	flags.StringVar(&s.listen, "listen", "127.0.0.1:0", "`address` of the emulator, on loopback")
	flags.StringVar(&s.program, "run", "", "program and arguments that start the agent; it gets SERVICEBUS_CONNECTION_STRING and AGENT_NAME, and must not be a shell around it; "+
		"empty: you start it")
	flags.StringVar(&s.dir, "dir", "", "`folder` that the agent runs in; default this one")
	flags.StringVar(&s.agentLog, "agent-log", "", "`file` for what the agent writes; empty: it is dropped")
	flags.StringVar(&s.restartCommand, "restart-command", "", "program and arguments that restart an agent which you started")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if *only != "" {
		s.options.Only = strings.Split(*only, ",")
	}
	switch {
	case s.options.Name == "":
		return s, errors.New("-name is required: the agent's name")
	case s.program != "" && s.restartCommand != "":
		return s, errors.New("-run and -restart-command exclude each other: what is run here is restarted here")
	}
	if s.options.Token, err = secret("-token-file", s.tokenFile); err != nil {
		return s, err
	}
	s.options.ConnectionString, err = secret("-connection-string-file", s.connectionFile)
	return s, err
}

func secret(name, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return strings.TrimSpace(string(content)), nil
}

// run makes the check, and says how many rules are broken.
func run(ctx context.Context, args []string, out io.Writer) (failed int, err error) {
	s, err := parse(args)
	if err != nil {
		return 0, err
	}
	if s.options.ConnectionString == "" {
		emulator, err := startEmulator(s.listen)
		if err != nil {
			return 0, err
		}
		defer emulator.Close()
		s.options.Emulator, s.options.ConnectionString = emulator, emulator.ConnectionString()
	}
	ended, err := s.startAgent(ctx, out)
	if err != nil {
		return 0, err
	}
	defer ended()
	s.options.Out = out
	report, err := conformance.Run(ctx, s.options)
	if len(report) > 0 {
		fmt.Fprintf(out, "\n%d passed, %d failed, %d not tried\n", report.Count(conformance.Passed), report.Count(conformance.Failed), report.Count(conformance.NotTried))
	}
	return report.Count(conformance.Failed), err
}

func startEmulator(listen string) (*servicebusemulator.Emulator, error) {
	topics, err := entities.Config()
	if err != nil {
		return nil, err
	}
	return servicebusemulator.Start(topics, servicebusemulator.Options{Listen: listen})
}

// startAgent starts the agent, or says how to.
func (s *settings) startAgent(ctx context.Context, out io.Writer) (end func(), err error) {
	if s.restartCommand != "" {
		s.options.Process = conformance.RestartCommand{Line: s.restartCommand}
	}
	if s.program == "" {
		fmt.Fprintf(out, "Start the agent %q now, with this connection string, and heartbeats every %s:\n\n  %s\n\n", s.options.Name, s.options.Interval, s.options.ConnectionString)
		return func() {}, nil
	}
	log := io.Discard
	end = func() {}
	if s.agentLog != "" {
		file, err := os.OpenFile(s.agentLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		log, end = file, func() { file.Close() }
	}
	program, err := conformance.NewProgram(s.program, s.dir, []string{
		"SERVICEBUS_CONNECTION_STRING=" + s.options.ConnectionString, "AGENT_NAME=" + s.options.Name,
	}, log)
	if err != nil {
		return nil, err
	}
	s.options.Process = program
	closeLog := end
	return func() { program.Kill(); closeLog() }, program.Start(ctx)
}
