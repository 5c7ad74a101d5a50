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
		"permit -listen beyond loopback; there is no TLS, so whoever can reach the port can read along")
	admin := flag.String("faults", "", "loopback TCP address of the HTTP endpoint that breaks things on demand, such as "+
		"127.0.0.1:0 (default none)")
	verbose := flag.Bool("verbose", false, "log every connection")
	flag.Parse()
	if err := run(*config, *listen, *admin, *allowRemote, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "servicebus-emulator:", err)
		os.Exit(1)
	}
}

func run(config, listen, admin string, allowRemote, verbose bool) error {
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
	emulator, err := servicebusemulator.Start(cfg, servicebusemulator.Options{
		Listen: listen, AllowRemote: allowRemote, Admin: admin,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	})
	if err != nil {
		return err
	}
	fmt.Println("listening on", emulator.Addr(), "(for development and tests, not for production)")
	fmt.Println("connection string:", emulator.ConnectionString())
	if admin != "" {
		fmt.Printf("faults: http://%s/faults\n", emulator.AdminAddr())
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
	return emulator.Close()
}
