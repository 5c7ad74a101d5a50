package agent

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"unicode"

	"buf.build/go/protovalidate"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// Authors of agents in other languages copy the messages that the guide shows. They are messages of the contract, with no field that
// it does not have, and this agent takes the command.
func TestTheGuideShowsMessagesOfTheContract(t *testing.T) {
	guide, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string][]byte{}
	example := regexp.MustCompile("(?s)\n(?:A|Its) \\*\\*(\\w+)\\*\\*.*?\n\n```json\n(.*?)```")
	for _, found := range example.FindAllSubmatch(guide, -1) {
		shown[string(found[1])] = found[2]
	}
	messages := map[string]proto.Message{
		"Heartbeat": &agentv1.Heartbeat{}, "Command": &agentv1.Command{}, "CommandResult": &agentv1.CommandResult{},
	}
	for name, message := range messages {
		if shown[name] == nil {
			t.Errorf("the guide shows no %s", name)
			continue
		}
		if err := protojson.Unmarshal(shown[name], message); err != nil {
			t.Errorf("the %s shown: %v", name, err)
		}
		if err := protovalidate.Validate(message); err != nil {
			t.Errorf("the %s shown: %v", name, err)
		}
		again, err := protojson.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(anyOf(t, shown[name]), anyOf(t, again)); diff != "" {
			t.Errorf("the %s shown is not written as this agent writes it: %s", name, diff)
		}
	}
	heartbeat, cmd := messages["Heartbeat"].(*agentv1.Heartbeat), messages["Command"].(*agentv1.Command)
	if r := check(cmd, heartbeat.GetName()); r != nil {
		t.Errorf("the agent that the heartbeat shows would refuse the command: %v", r)
	}
	if result := messages["CommandResult"].(*agentv1.CommandResult); result.GetCommandId() != cmd.GetCommandId() {
		t.Errorf("the result is of command %s, and the command is %s", result.GetCommandId(), cmd.GetCommandId())
	}
}

func anyOf(t *testing.T, text []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// The rule that the guide gives for languages without case folding treats the same names as equal as case folding does. It is tried in
// JavaScript with every letter.
func TestI13_FoldingWithoutCaseFoldingComparesTheSame(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("NOT RUN: how JavaScript compares names is not tested here, for node is missing")
	}
	var letters []string
	for r := range unicode.MaxRune + 1 {
		// Libraries of different age fold Cherokee letters differently, and letters newer than Go's tables are left out.
		if unicode.IsGraphic(r) && r != '"' && r != '\\' && !unicode.Is(unicode.Cherokee, r) {
			letters = append(letters, string(r), "x"+string(r)+"Y")
		}
	}
	letters = append(letters, "Straße-4", "STRASSE-4", "STRAẞE-4", "strasse-4", "ÖL-1", "öl-1", "Å-5", "A\u030a-5",
		"ΟΔΟΣ", "οδος", "οδοσ", "ı", "I")
	asked, err := json.Marshal(letters)
	if err != nil {
		t.Fatal(err)
	}
	node := exec.CommandContext(t.Context(), "node", "--input-type=module", "-e", `
		import { folded, sameName } from "./examples/node/names.mjs";
		let text = "";
		for await (const part of process.stdin.setEncoding("utf8")) text += part;
		process.stdout.write(JSON.stringify(JSON.parse(text).map((name) => sameName("\u0085\u3000 " + name + "\t\u00a0", name) ? folded(name) : "blanks count")));`)
	node.Stdin = bytes.NewReader(asked)
	var said bytes.Buffer
	node.Stderr = &said
	answer, err := node.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	var folded []string
	if err := json.Unmarshal(answer, &folded); err != nil || len(folded) != len(letters) {
		t.Fatalf("%d answers to %d names: %v", len(folded), len(letters), err)
	}
	theirs, ours, wrong := map[string]string{}, map[string]string{}, 0
	for i, letter := range letters {
		here, there := foldName(letter), folded[i]
		one, met := theirs[here]
		other, metThere := ours[there]
		if wrong < 20 && (met && one != there || metThere && other != here) {
			t.Errorf("%q (%U): here it is %q, in JavaScript %q", letter, []rune(letter), here, there)
			wrong++
		}
		theirs[here], ours[there] = there, here
	}
}
