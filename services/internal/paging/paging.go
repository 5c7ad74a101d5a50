// Package paging is what all lists have in common: in which order they are, how much a page holds, and where the next one begins.
package paging

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/commandcenter/fleet/services/internal/fault"
)

// defaultSize is how many a page holds where the caller does not say.
const defaultSize = 100

// Size is how many a page holds.
func Size(given int32) int {
	if given == 0 {
		return defaultSize
	}
	return int(given)
}

// place is where a page of a list ended, bound to the question it belongs to.
type place[Cursor any] struct {
	After    Cursor `json:"a"`
	Question string `json:"q"`
}

// Token makes the opaque text from which a list goes on. Question is everything that was asked except the page: filters and order.
func Token[Cursor any](after Cursor, question any) (string, error) {
	encoded, err := json.Marshal(place[Cursor]{after, digest(question)})
	return base64.RawURLEncoding.EncodeToString(encoded), err
}

// Parse reads a token back; nil for an empty one. A token of another question is refused.
func Parse[Cursor any](text string, question any) (*Cursor, error) {
	if text == "" {
		return nil, nil
	}
	var read place[*Cursor]
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &read)
	}
	if err != nil || read.After == nil || read.Question != digest(question) {
		return nil, fault.Invalid("/pageToken", "is not a page token of this list with these filters and in this order; begin without one")
	}
	return read.After, nil
}

func digest(question any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%T%+v", question, question))
	return hex.EncodeToString(sum[:6])
}

// Order is how a list is sorted.
type Order struct {
	By         string
	Descending bool
}

// ParseOrder reads an order_by: one of the names, which " desc" or " asc" may follow. Names are taken in camel case as well. Empty is
// the fallback, which is written alike.
func ParseOrder(text, fallback string, names ...string) (Order, error) {
	if strings.TrimSpace(text) == "" {
		text = fallback
	}
	words := strings.Fields(text)
	direction := ""
	if len(words) == 2 {
		direction = strings.ToLower(words[1])
	}
	by := snakeCase(words[0])
	if len(words) > 2 || !slices.Contains(names, by) || (len(words) == 2 && direction != "asc" && direction != "desc") {
		return Order{}, fault.Invalid("/orderBy", "must be one of %s, and desc or asc may follow it", strings.Join(names, ", "))
	}
	return Order{By: by, Descending: direction == "desc"}, nil
}

func snakeCase(name string) string {
	var out strings.Builder
	for i, letter := range name {
		if i > 0 && unicode.IsUpper(letter) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(letter))
	}
	return out.String()
}

// Sort sorts a list that is read whole. Key is what two items are compared by; those that it does not tell apart stay in their order.
func Sort[Item any](items []Item, order Order, compare func(a, b Item) int) {
	slices.SortStableFunc(items, func(a, b Item) int {
		if order.Descending {
			return compare(b, a)
		}
		return compare(a, b)
	})
}
