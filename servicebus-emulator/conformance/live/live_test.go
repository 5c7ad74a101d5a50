package live

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// What go test -json prints becomes one result a test: a skipped part makes it skipped, and a process that dies makes it failed.
func TestOutputBecomesResults(t *testing.T) {
	results, other := Suite{Name: "s"}.collect(strings.NewReader(`
		{"Action":"output","Output":"before any test\n"}
		{"Action":"run","Test":"TestGood"}
		{"Action":"output","Test":"TestGood","Output":"--- PASS: TestGood (1.50s)\n"}
		{"Action":"pass","Test":"TestGood","Elapsed":1.5}
		{"Action":"run","Test":"TestPart"}
		{"Action":"output","Test":"TestPart/one","Output":"    --- SKIP: TestPart/one (0.00s)\n"}
		{"Action":"skip","Test":"TestPart/one"}
		{"Action":"pass","Test":"TestPart"}
		{"Action":"run","Test":"TestDies"}
		{"Action":"output","Test":"TestDies","Output":"panic: gone\n"}`))
	want := map[string]Outcome{"TestGood": Passed, "TestPart": Skipped, "TestDies": Failed}
	for _, r := range results {
		if want[r.Test] != r.Outcome {
			t.Errorf("%s: %s, want %s", r.Test, r.Outcome, want[r.Test])
		}
	}
	if len(results) != len(want) || other != "before any test\n" || results[0].Took.Seconds() != 1.5 {
		t.Errorf("%+v, %q", results, other)
	}
}

// A test fails the run unless it passed or is excepted by name; so does one that is missing, and an exception that is not needed.
func TestOnlyWhatPassedOrIsExceptedIsGood(t *testing.T) {
	defer func(before []Exception) { NotApplicable = before }(NotApplicable)
	NotApplicable = []Exception{{Suite: "s", Test: "TestExcepted", Why: "it needs a data centre"}, {Suite: "s", Test: "TestNotNeeded", Why: "x"}}
	var out bytes.Buffer
	got := judge(&out, Suite{Name: "s", Tests: 6}, []Result{
		{Test: "TestGood", Outcome: Passed},
		{Test: "TestSkipped", Outcome: Skipped},
		{Test: "TestBad", Outcome: Failed, Output: "\tError: \tno\n"},
		{Test: "TestExcepted", Outcome: Failed},
		{Test: "TestNotNeeded", Outcome: Passed},
	}, true)
	if want := (count{passed: 1, failed: 4, notApplicable: 1}); got != want {
		t.Errorf("%+v, want %+v\n%s", got, want, &out)
	}
	for _, want := range []string{"TestExcepted: it needs a data centre", "TestBad (0s): Error: no", "SKIPPED  TestSkipped", "1 tests did not run", "TestNotNeeded passes"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
}

// A patch that finds nothing means that the tests are others than those it was written for.
func TestPatchesMustFit(t *testing.T) {
	dir := t.TempDir()
	for _, p := range Patches {
		if p.Old == "" {
			continue
		}
		file := filepath.Join(dir, filepath.FromSlash(p.File))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(file)
		if err := os.WriteFile(file, append(before, p.Old...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := apply(goAMQP, dir); err != nil {
		t.Fatal(err)
	}
	if err := apply(goAMQP, dir); err == nil || !strings.Contains(err.Error(), "is not in it") {
		t.Errorf("applied twice: %v", err)
	}
	for _, p := range Patches {
		if p.Why == "" || p.File == "" {
			t.Errorf("%+v has no file or no reason", p)
		}
	}
}

// The fault injector counts messages, not the answers that $cbs and $management give.
func TestOnlyMessagesAreCounted(t *testing.T) {
	var stream []byte
	frame := func(performative interface{ Append(dst []byte) []byte }) {
		begun, mark := amqp.BeginFrame(stream, amqp.FrameAMQP, 1)
		stream = amqp.EndFrame(performative.Append(begun), mark)
	}
	attach := func(handle uint32, address string) {
		frame(amqp.Attach{Name: address, Handle: handle, Role: amqp.RoleSender, Source: &amqp.Terminus{Address: address}, Target: &amqp.Terminus{}})
	}
	stream = append(stream, amqp.ProtocolAMQP...)
	attach(1, "$cbs")
	attach(2, "queue")
	attach(3, "queue/$management")
	stream = amqp.AppendEmptyFrame(stream)
	for _, handle := range []uint32{1, 2, 3, 2} {
		frame(amqp.Transfer{Handle: handle, HasDeliveryID: true, Payload: []byte("x")})
	}
	in, w, messages := bytes.NewReader(stream), watcher{answers: map[link]bool{}}, 0
	var passed []byte
	for in.Len() > 0 {
		bytes, message, err := w.next(in)
		if err != nil {
			t.Fatal(err)
		}
		passed = append(passed, bytes...)
		if message {
			messages++
		}
	}
	if messages != 2 || !bytes.Equal(passed, stream) {
		t.Errorf("%d messages; the same bytes: %v", messages, bytes.Equal(passed, stream))
	}
}
