package management

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/commandcenter/fleet/servicebus-emulator/amqp"
)

// Keys are shared access keys by their names. Without any, every client may do everything.
type Keys map[string]string

// Claim is the right to use the entities at and below a path, until a time.
type Claim struct {
	Path      string // lower case, no slash at either end; empty: the whole namespace
	ExpiresAt time.Time
}

// Covers says whether the claim is good for an entity's path.
func (c Claim) Covers(path string, now time.Time) bool {
	path = strings.ToLower(strings.Trim(path, "/"))
	return now.Before(c.ExpiresAt) &&
		(c.Path == "" || path == c.Path || strings.HasPrefix(path, c.Path+"/"))
}

// PutToken answers a request to $cbs and, if it was granted, with which claim.
func PutToken(keys Keys, r *Request, now time.Time) (Response, *Claim) {
	if r.Operation != "put-token" {
		return failure(statusNotImplemented, amqp.ErrNotImplemented,
			"$cbs: operation '%s' is not implemented; put-token is", r.Operation), nil
	}
	granted := Response{Status: statusAccepted, Description: "Accepted"}
	if len(keys) == 0 {
		return granted, &Claim{ExpiresAt: now.AddDate(100, 0, 0)}
	}
	token, _ := r.Body.(string)
	claim, err := keys.Verify(token, now)
	if err != nil {
		return failure(statusUnauthorized, amqp.ErrUnauthorizedAccess, "the token is not valid: %v", err), nil
	}
	return granted, claim
}

// Audience is the URL of the entity that a token is put for.
func (r *Request) Audience() string { return r.text("name") }

// NotFound answers a request about an entity that does not exist.
func NotFound(reason *amqp.Error) Response {
	return Response{Status: statusNotFound, Description: reason.Description, Condition: reason.Condition}
}

// Verify checks a shared access signature: "SharedAccessSignature sr=<uri>&sig=<hmac>&se=<expiry>&skn=<key name>".
func (k Keys) Verify(token string, now time.Time) (*Claim, error) {
	query, ok := strings.CutPrefix(token, "SharedAccessSignature ")
	if !ok {
		return nil, fmt.Errorf("it is not a SharedAccessSignature, and only those can be checked here")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("it is not a query string")
	}
	name := values.Get("skn")
	key, ok := k[name]
	if !ok {
		return nil, fmt.Errorf("key name %q (skn) is unknown", name)
	}
	signed := signature(key, rawValue(query, "sr")+"\n"+rawValue(query, "se"))
	if !hmac.Equal([]byte(signed), []byte(values.Get("sig"))) {
		return nil, fmt.Errorf("its signature (sig) does not match key %q", name)
	}
	seconds, err := strconv.ParseInt(values.Get("se"), 10, 64)
	expiresAt := time.Unix(seconds, 0)
	if err != nil || !now.Before(expiresAt) {
		return nil, fmt.Errorf("it has expired (se=%s)", values.Get("se"))
	}
	resource, err := url.Parse(values.Get("sr"))
	if err != nil {
		return nil, fmt.Errorf("its resource (sr) is not a URI")
	}
	return &Claim{Path: strings.ToLower(strings.Trim(resource.Path, "/")), ExpiresAt: expiresAt}, nil
}

// rawValue answers a parameter as it was encoded, which is how it was signed.
func rawValue(query, name string) string {
	for part := range strings.SplitSeq(query, "&") {
		if value, ok := strings.CutPrefix(part, name+"="); ok {
			return value
		}
	}
	return ""
}

func signature(key, text string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Plain checks the response of SASL PLAIN: a key's name and the key.
func (k Keys) Plain(response []byte) bool {
	parts := strings.Split(string(response), "\x00")
	if len(parts) != 3 {
		return false
	}
	key, ok := k[parts[1]]
	return ok && hmac.Equal([]byte(key), []byte(parts[2]))
}
