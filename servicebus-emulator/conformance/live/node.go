package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Probes are the scripts of the folder node, one suite each. Every step of a script is a test.
var Probes = []string{"delivery", "rights", "rulemanager", "bulk", "limits", "administered", "doors"}

// installTime bounds npm.
const installTime = 5 * time.Minute

// installProbes copies the scripts to scratch and has npm install what their lock file says.
func installProbes(ctx context.Context, root, scratch string) (dir string, err error) {
	dir = filepath.Join(scratch, "node")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "conformance", "node"))); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, installTime)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci, which needs Node 20 and its registry: %w\n%s", errors.Join(err, ctx.Err()), out)
	}
	return dir, nil
}

// probe runs one script. run chooses among its steps in the report; all are run, as some build on others.
func probe(ctx context.Context, dir, name, run string, environment []string, timeout time.Duration) ([]Result, error) {
	chosen, err := regexp.Compile(run)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	node := exec.CommandContext(ctx, "node", name+".mjs")
	node.Dir = dir
	node.Env = append(node.Environ(), environment...)
	var complaints strings.Builder
	node.Stderr = &complaints
	out, err := node.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := node.Start(); err != nil {
		return nil, err
	}
	var results []Result
	steps, done := 0, false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var line struct {
			Step, Error string
			OK, Done    bool
			Ms, Steps   int
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			fmt.Fprintln(&complaints, lines.Text())
			continue
		}
		if line.Done {
			done = line.Steps == steps
			continue
		}
		steps++
		r := Result{Suite: name, Test: line.Step, Outcome: Passed, Took: time.Duration(line.Ms) * time.Millisecond}
		if !line.OK {
			r.Outcome, r.Output = Failed, "Error: "+line.Error
		}
		if chosen.MatchString(r.Test) {
			results = append(results, r)
		}
	}
	if err := node.Wait(); err != nil || !done {
		results = append(results, Result{
			Suite: name, Test: "the end of the script", Outcome: Failed,
			Output: fmt.Sprintf("Error: it ended after %d steps: %v\n%s", steps, errors.Join(err, ctx.Err()), complaints.String()),
		})
	}
	return results, nil
}
