package rpc

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// place is where a page of a list ended, bound to the question it belongs to.
type place[Cursor any] struct {
	After    Cursor `json:"a"`
	Question string `json:"q"`
}

// pageToken makes the opaque text for callers. Question is everything that was asked, except the page.
func pageToken[Cursor any](after Cursor, question any) (string, error) {
	encoded, err := json.Marshal(place[Cursor]{after, digest(question)})
	return base64.RawURLEncoding.EncodeToString(encoded), err
}

// parsePageToken reads a token back; nil for an empty one.
func parsePageToken[Cursor any](text string, question any) (*Cursor, error) {
	if text == "" {
		return nil, nil
	}
	var read place[Cursor]
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &read)
	}
	if err != nil || read.Question != digest(question) {
		return nil, fault.Invalid("/pageToken", "is not a page token of this list with these filters")
	}
	return &read.After, nil
}

func digest(question any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%T%+v", question, question))
	return hex.EncodeToString(sum[:6])
}

// pageSize is how many a page holds where the caller does not say.
func pageSize(given int32) int {
	if given == 0 {
		return 100
	}
	return int(given)
}
