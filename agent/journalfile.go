package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	agentv1 "github.com/commandcenter/fleet/proto/gen/commandcenter/agent/v1"
)

// A journal's file is lines of text. The first names the format; each other is the whole record of one command as of
// then, so that the last line of an id counts:
//
//	<length of the JSON, 8 hex digits> <its CRC-32C, 8 hex digits> <JSON>\n
const fileFormat = "commandcenter agent journal 1\n"

// lineHeader is the length of what comes before the JSON.
const lineHeader = 8 + 1 + 8 + 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// state of a command in the file.
type state string

const (
	stateBegun      state = "begun"      // it may have run
	stateRestarting state = "restarting" // it was about to end the process, which is all it asks for
	stateFinished   state = "finished"
	stateForgotten  state = "forgotten" // it was not started after all: there is no record
)

// entry is one line.
type entry struct {
	State    state           `json:"state"`
	ID       string          `json:"id"`
	Print    []byte          `json:"print,omitempty"`
	Begun    time.Time       `json:"begun"`
	Finished time.Time       `json:"finished,omitzero"`
	Result   json.RawMessage `json:"result,omitempty"` // CommandResult
}

// entryOf a record that came to that state.
func entryOf(r *record, s state, result *agentv1.CommandResult, finished time.Time) entry {
	e := entry{State: s, ID: r.key}
	if s == stateForgotten {
		return e
	}
	e.Print, e.Begun = r.print[:], r.begun.Round(0)
	if s != stateFinished {
		return e
	}
	e.Finished = finished.Round(0)
	var err error
	if e.Result, err = protojson.Marshal(result); err != nil { // the host gave text that is none
		short := stripped(result, "")
		short.Message = "what the host answered can't be encoded"
		e.Result, _ = protojson.Marshal(short)
	}
	return e
}

func (e entry) line() ([]byte, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %08x %s\n", len(body), crc32.Checksum(body, castagnoli), body), nil
}

// corruptError says that a journal can't be trusted: commands that it knew might run a second time.
type corruptError struct {
	path   string
	offset int // bytes
	why    string
}

func (e *corruptError) Error() string {
	return fmt.Sprintf("journal %s is damaged at byte %d: %s; move the file away to start without it, once no command of the last hour can come again",
		e.path, e.offset, e.why)
}

// parseJournal reads a whole file. torn is how many bytes at its end are a line whose writing was cut short, by a crash or a
// full disk: nothing that was relied on, since a line counts only once it is on disk. Anything else that is no line is
// damage.
func parseJournal(path string, data []byte) (entries []entry, torn int, err error) {
	if len(data) == 0 {
		return nil, 0, nil
	}
	if !bytes.HasPrefix(data, []byte(fileFormat)) {
		return nil, 0, &corruptError{path, 0, "it is not a journal, or not of this version"}
	}
	whole := bytes.TrimRight(data, "\x00") // a file may have grown before what is in it was written
	for offset := len(fileFormat); offset < len(whole); {
		length := bytes.IndexByte(whole[offset:], '\n') + 1
		if length == 0 {
			return entries, len(data) - offset, nil
		}
		e, why := parseLine(whole[offset : offset+length-1])
		if why != "" {
			return nil, 0, &corruptError{path, offset, why}
		}
		entries = append(entries, e)
		offset += length
	}
	return entries, len(data) - len(whole), nil
}

// parseLine reads one line, and says why if it is none.
func parseLine(line []byte) (e entry, why string) {
	if len(line) < lineHeader || line[8] != ' ' || line[17] != ' ' {
		return e, "it is not a line of length, checksum and record"
	}
	length, errLength := strconv.ParseUint(string(line[:8]), 16, 32)
	sum, errSum := strconv.ParseUint(string(line[9:17]), 16, 32)
	body := line[lineHeader:]
	switch {
	case errLength != nil || errSum != nil:
		return e, "length or checksum are no numbers"
	case int(length) != len(body):
		return e, fmt.Sprintf("the record has %d bytes and should have %d", len(body), length)
	case uint32(sum) != crc32.Checksum(body, castagnoli):
		return e, "the checksum is wrong"
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return e, "the record can't be read: " + err.Error()
	}
	switch e.State {
	case stateBegun, stateRestarting, stateFinished:
		if len(e.Print) != len(fingerprint{}) {
			return e, "the fingerprint has another length"
		}
	case stateForgotten:
	default:
		return e, fmt.Sprintf("the state %q is not known", e.State)
	}
	return e, ""
}

// latest gives the last entry of each id, in the order in which those were written, without the forgotten.
func latest(entries []entry) []entry {
	last := map[string]int{}
	for i, e := range entries {
		last[e.ID] = i
	}
	var out []entry
	for i, e := range entries {
		if last[e.ID] == i && e.State != stateForgotten {
			out = append(out, e)
		}
	}
	return out
}

// recordOf an entry that another process left, as of now.
func recordOf(e entry, agent string, now time.Time) (*record, error) {
	r := &record{key: e.ID, print: fingerprint(e.Print), begun: e.Begun, finishedAt: e.Begun}
	switch e.State {
	case stateFinished:
		r.finishedAt, r.result = e.Finished, &agentv1.CommandResult{}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(e.Result, r.result); err != nil {
			return nil, fmt.Errorf("the result of command %s can't be read: %w", e.ID, err)
		}
	case stateRestarting:
		r.finishedAt, r.result = now, restarted(e.ID, agent, e.Begun, now)
	}
	return r, nil
}
