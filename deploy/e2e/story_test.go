package e2e

import (
	"bytes"
	"testing"

	"github.com/commandcenter/fleet/deploy/local"
	"github.com/commandcenter/fleet/deploy/story"
)

// TestStory tells the story of `make demo`.
func TestStory(t *testing.T) {
	world, stop, err := local.StartStory(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var told bytes.Buffer
	result := story.Tell(t.Context(), world, &told)
	if result.Failed > 0 || result.Passed == 0 {
		t.Fatalf("%d passed, %d failed:\n%s", result.Passed, result.Failed, told.String())
	}
}
