package story

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Answer is one REST answer, with its body decoded.
type Answer struct {
	Status int
	Header http.Header
	Body   map[string]any
	Raw    string
}

// Text follows keys into nested objects and returns what it finds as text; empty when there is nothing.
func (a Answer) Text(keys ...string) string {
	var value any = a.Body
	for _, key := range keys {
		object, ok := value.(map[string]any)
		if !ok {
			return ""
		}
		value = object[key]
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// List returns the objects of a list.
func (a Answer) List(key string) []map[string]any {
	items, _ := a.Body[key].([]any)
	objects := make([]map[string]any, 0, len(items))
	for _, item := range items {
		if object, ok := item.(map[string]any); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

// Client speaks REST to one gateway.
type Client struct {
	Base string // for example http://127.0.0.1:8080
	HTTP *http.Client
}

// Do makes one call. A non-nil body is sent as JSON; a non-empty etag as If-Match.
func (c Client) Do(ctx context.Context, method, path string, body any, etag string) (Answer, error) {
	var reader io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return Answer{}, err
		}
		reader = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.Base+path, reader)
	if err != nil {
		return Answer{}, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if etag != "" {
		request.Header.Set("If-Match", etag)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Status: response.StatusCode, Header: response.Header, Raw: strings.TrimSpace(string(raw))}
	if len(raw) > 0 && answer.Header.Get("Content-Type") != "application/x-ndjson" { // lines of it are read by whoever wants them
		if err := json.Unmarshal(raw, &answer.Body); err != nil {
			return answer, fmt.Errorf("%s %s answered %d with a body that is not JSON: %w", method, path, response.StatusCode, err)
		}
	}
	return answer, nil
}

// at builds a path from segments, each escaped.
func at(segments ...string) string {
	escaped := make([]string, len(segments))
	for i, segment := range segments {
		escaped[i] = url.PathEscape(segment)
	}
	return "/api/" + strings.Join(escaped, "/")
}
