// Command servicebus-emulator runs the Service Bus emulator: servicebus-emulator -config Config.json
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	servicebusemulator "github.com/commandcenter/fleet/servicebus-emulator"
)

func main() {
	config := flag.String("config", "", "path of the Config.json that lists the entities (required)")
	listen := flag.String("listen", "127.0.0.1:5672", "TCP address to listen on")
	allowRemote := flag.Bool("allow-remote", false,
		"permit -listen and -admin beyond loopback; there is no TLS, so whoever can reach the port can read along")
	faults := flag.String("faults", "", "loopback TCP address of the HTTP endpoint that breaks things on demand, such as "+
		"127.0.0.1:0 (default none)")
	admin := flag.String("admin", "", "TCP address of the administration API, over plain HTTP, such as 127.0.0.1:5300 (default none)")
	verbose := flag.Bool("verbose", false, "log every connection")
	flag.Parse()
	options := servicebusemulator.Options{Listen: *listen, AllowRemote: *allowRemote, FaultsListen: *faults, AdminListen: *admin}
	if err := run(*config, options, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "servicebus-emulator:", err)
		os.Exit(1)
	}
}

func run(config string, options servicebusemulator.Options, verbose bool) error {
	if config == "" {
		return fmt.Errorf("-config is missing; name a Config.json, such as examples/Config.json")
	}
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	cfg, err := servicebusemulator.LoadConfig(config)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	options.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	emulator, err := servicebusemulator.Start(cfg, options)
	if err != nil {
		return err
	}
	fmt.Println("listening on", emulator.Addr(), "(for development and tests, not for production)")
	fmt.Println("connection string:", emulator.ConnectionString())
	if options.AdminListen != "" {
		fmt.Printf("administration: http://%s\n", emulator.AdminAddr())
	}
	if options.FaultsListen != "" {
		fmt.Printf("faults: http://%s/faults\n", emulator.FaultsAddr())
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
	return emulator.Close()
}
