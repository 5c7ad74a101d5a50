package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Outcome is how a test ended.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
)

// Result is one test, without its subtests.
type Result struct {
	Suite   string
	Test    string
	Outcome Outcome
	Output  string
	Took    time.Duration
}

// test runs a suite in the folder it was unpacked to. run chooses among its tests; empty: all. A test that ends the process has failed,
// and the others go on without it.
func (s Suite) test(ctx context.Context, dir, run string, environment []string, timeout time.Duration) ([]Result, error) {
	program := filepath.Join(dir, "conformance.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, s.Package)
	build.Dir = dir
	build.Env = append(build.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(build.Args, " "), errors.Join(err, ctx.Err()), out)
	}
	names, err := s.names(ctx, dir, program, run, environment)
	if err != nil {
		return nil, err
	}
	var results []Result
	for end := time.Now().Add(timeout); len(names) > 0; {
		left := time.Until(end)
		if left <= 0 || ctx.Err() != nil {
			for _, name := range names {
				results = append(results, Result{Suite: s.Name, Test: name, Outcome: Failed, Output: "Error: not begun when the time was up"})
			}
			break
		}
		got, other := s.process(ctx, dir, program, names, environment, left)
		if len(got) == 0 {
			return nil, fmt.Errorf("%s: no test ran; %w\n%s", s.Name, cmp.Or(ctx.Err(), errors.New("it printed")), other)
		}
		results = append(results, got...)
		names = slices.DeleteFunc(names, func(name string) bool {
			return slices.ContainsFunc(got, func(r Result) bool { return r.Test == name })
		})
	}
	slices.SortStableFunc(results, func(a, b Result) int { return strings.Compare(a.Test, b.Test) })
	return results, nil
}

// process runs one process with the given tests.
func (s Suite) process(ctx context.Context, dir, program string, names, environment []string, timeout time.Duration) ([]Result, string) {
	command := exec.CommandContext(ctx, "go", "tool", "test2json", "-t", program, "-test.v=test2json", "-test.count=1",
		"-test.timeout", timeout.String(), "-test.run", "^("+strings.Join(names, "|")+")$")
	command.Dir = filepath.Join(dir, s.Package) // where go test runs them
	command.Env = append(append(command.Environ(), "GOWORK=off"), environment...)
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err.Error()
	}
	if err := command.Start(); err != nil {
		return nil, err.Error()
	}
	results, other := s.collect(out)
	if err := command.Wait(); err != nil {
		other += err.Error()
	}
	return results, other + complaints.String()
}

// names are the tests to run.
func (s Suite) names(ctx context.Context, dir, program, run string, environment []string) ([]string, error) {
	list := exec.CommandContext(ctx, program, "-test.list", cmp.Or(run, "."))
	list.Dir = filepath.Join(dir, s.Package)
	list.Env = append(list.Environ(), environment...)
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: listing the tests: %w\n%s", s.Name, errors.Join(err, ctx.Err()), out)
	}
	names := strings.Fields(string(out))
	var wanted []string
	if s.File != "" {
		if wanted, err = testsOf(filepath.Join(dir, s.File)); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, "Test") || s.File != "" && !slices.Contains(wanted, name)
	}), nil
}

var declaration = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]*)\(`)

// testsOf are the tests that a file declares.
func testsOf(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	return names, nil
}

// collect reads what go test -json prints: the results by test, and what belongs to none.
func (s Suite) collect(in io.Reader) (results []Result, other string) {
	type event struct {
		Action, Test, Output string
		Elapsed              float64
	}
	at := map[string]int{}
	var rest strings.Builder
	for decoder := json.NewDecoder(in); ; {
		var e event
		if err := decoder.Decode(&e); err != nil {
			break
		}
		name, sub, _ := strings.Cut(e.Test, "/")
		if name == "" {
			rest.WriteString(e.Output)
			continue
		}
		i, ok := at[name]
		if !ok {
			i = len(results)
			at[name] = i
			// Without an end of its own a test was ended by that of the process.
			results = append(results, Result{Suite: s.Name, Test: name, Outcome: Failed})
		}
		r := &results[i]
		r.Output += e.Output
		if sub != "" {
			continue
		}
		switch e.Action {
		case "pass":
			r.Outcome = Passed
		case "skip":
			r.Outcome = Skipped
		}
		if e.Elapsed > 0 {
			r.Took = time.Duration(e.Elapsed * float64(time.Second))
		}
	}
	for i := range results { // a skipped part is no pass
		if results[i].Outcome == Passed && strings.Contains(results[i].Output, "--- SKIP: ") {
			results[i].Outcome = Skipped
		}
	}
	return results, rest.String()
}
