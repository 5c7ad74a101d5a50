package store

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Cursor is where a page ended: the last row's sort value and key. As a token it is bound to the question it belongs to.
type Cursor struct {
	Sort string `json:"s"`
	Key  int64  `json:"k"`
}

type token struct {
	Cursor
	Question string `json:"q"`
}

// ErrToken tells a page token that was not given out for this question.
var ErrToken = errors.New("is not a page token of this list with these filters")

// Token makes the opaque text for callers. Question is everything that was asked, except the page.
func (c *Cursor) Token(question any) (string, error) {
	if c == nil {
		return "", nil
	}
	encoded, err := json.Marshal(token{*c, digest(question)})
	return base64.RawURLEncoding.EncodeToString(encoded), err
}

// ParseToken reads a token back; nil for an empty one.
func ParseToken(text string, question any) (*Cursor, error) {
	if text == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, ErrToken
	}
	var read token
	if err := json.Unmarshal(raw, &read); err != nil || read.Question != digest(question) || read.Key <= 0 {
		return nil, ErrToken
	}
	return &read.Cursor, nil
}

func digest(question any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v", question))
	return hex.EncodeToString(sum[:6])
}
