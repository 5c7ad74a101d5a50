package paging

import (
	"encoding/base64"
	"testing"

	"github.com/commandcenter/fleet/services/internal/fault"
)

type question struct {
	Query string
	Order Order
}

func TestATokenIsOfItsQuestionAlone(t *testing.T) {
	asked := question{"a", Order{"name", false}}
	token, err := Token(int64(7), asked)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := Parse[int64](token, asked); err != nil || *after != 7 {
		t.Errorf("read back as %v, %v", after, err)
	}
	if after, err := Parse[int64]("", asked); after != nil || err != nil {
		t.Errorf("no token is %v, %v", after, err)
	}
	for what, read := range map[string]func() error{
		"another filter":    func() error { _, err := Parse[int64](token, question{"b", asked.Order}); return err },
		"another order":     func() error { _, err := Parse[int64](token, question{"a", Order{"key", false}}); return err },
		"another direction": func() error { _, err := Parse[int64](token, question{"a", Order{"name", true}}); return err },
		"another list":      func() error { _, err := Parse[int64](token, struct{ Query string }{"a"}); return err },
		"another cursor":    func() error { _, err := Parse[string](token, asked); return err },
		"no token":          func() error { _, err := Parse[int64]("zzz", asked); return err },
		"null": func() error {
			_, err := Parse[int64](base64.RawURLEncoding.EncodeToString([]byte("null")), asked)
			return err
		},
		"an empty one": func() error {
			_, err := Parse[int64](base64.RawURLEncoding.EncodeToString([]byte("{}")), asked)
			return err
		},
	} {
		if found := fault.From(read()); found == nil || found.Reason != fault.InvalidArgument || found.Fields[0].Pointer != "/pageToken" {
			t.Errorf("%s: %v", what, found)
		}
	}
}

func TestOrders(t *testing.T) {
	for text, want := range map[string]Order{
		"": {"last_heartbeat", true}, " ": {"last_heartbeat", true}, "name": {"name", false}, "name asc": {"name", false}, "name DESC": {"name", true},
		"lastHeartbeat desc": {"last_heartbeat", true}, "last_heartbeat": {"last_heartbeat", false}, " name  desc ": {"name", true},
	} {
		if got, err := ParseOrder(text, "last_heartbeat desc", "name", "last_heartbeat"); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"key", "name down", "name desc asc", "name,key", "desc", "NAME"} {
		_, err := ParseOrder(text, "name", "name", "last_heartbeat")
		if found := fault.From(err); found == nil || found.Fields[0].Pointer != "/orderBy" || found.Fields[0].Detail != "must be one of name, last_heartbeat, and desc or asc may follow it" {
			t.Errorf("%q: %v", text, found)
		}
	}
}

func TestSortKeepsTheOrderOfEquals(t *testing.T) {
	items := []string{"b1", "a1", "b2", "a2"}
	first := func(a, b string) int { return int(a[0]) - int(b[0]) }
	Sort(items, Order{"first", true}, first)
	if items[0] != "b1" || items[1] != "b2" || items[2] != "a1" || items[3] != "a2" {
		t.Errorf("%v", items)
	}
}
