// Command demo tells the main story through REST against a fresh local system, and checks every answer.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/commandcenter/fleet/deploy/local"
	"github.com/commandcenter/fleet/deploy/story"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := tell(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	fmt.Printf("\n%d passed, %d failed\n", result.Passed, result.Failed)
	if result.Failed > 0 {
		os.Exit(1)
	}
}

func tell(ctx context.Context) (story.Result, error) {
	dir, err := os.MkdirTemp("", "fleet-demo-*")
	if err != nil {
		return story.Result{}, err
	}
	defer os.RemoveAll(dir)
	world, stop, err := local.StartStory(ctx, dir)
	if err != nil {
		return story.Result{}, err
	}
	defer stop()
	return story.Tell(ctx, world, os.Stdout), ctx.Err()
}
