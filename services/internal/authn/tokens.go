package authn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// reloadInterval is how often the file is looked at.
const reloadInterval = 2 * time.Second

// maxPrincipal is how many characters a principal has at most; decisions record it in a column of that width.
const maxPrincipal = 256

type hash [sha256.Size]byte

// Tokens knows the principals by the SHA-256 of their tokens.
type Tokens struct {
	path       string // empty: everybody is the same principal
	everybody  Principal
	inRequests bool
	logger     *slog.Logger
	principals atomic.Pointer[map[hash]Principal]
	content    []byte // as last read; only Run and Open touch it
}

// Local lets everybody in as LocalPrincipal. Only for listeners on loopback.
func Local() *Tokens { return &Tokens{everybody: LocalPrincipal} }

// InRequests lets everybody in as AgentPrincipal, from beyond loopback too: for services that agents call, whose methods authenticate
// their callers by what the requests hold.
func InRequests() *Tokens { return &Tokens{everybody: AgentPrincipal, inRequests: true} }

// Open reads a token file: a YAML list of entries with sha256 (hex), principal and role.
// Tokens are long random texts, so a plain hash hides them well: printf %s "$token" | sha256sum.
func Open(path string, logger *slog.Logger) (*Tokens, error) {
	tokens := &Tokens{path: path, logger: logger}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the token file cannot be read: %w", err)
	}
	if err := tokens.take(content); err != nil {
		return nil, err
	}
	return tokens, nil
}

// ForFile is Open for a file that may not be configured: without one it is Local. Errors name the key.
func ForFile(key, path string, logger *slog.Logger) (*Tokens, error) {
	if path == "" {
		return Local(), nil
	}
	tokens, err := Open(path, logger)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return tokens, nil
}

// Required tells whether callers must present a token.
func (t *Tokens) Required() bool { return t.path != "" }

// Remote tells whether callers from beyond loopback may be served.
func (t *Tokens) Remote() bool { return t.Required() || t.inRequests }

// Authenticate finds the principal of a token. Where none is required, everybody is the same one.
func (t *Tokens) Authenticate(token string) (Principal, bool) {
	if !t.Required() {
		return t.everybody, true
	}
	// Looking up the hash takes a time that tells nothing about any token.
	principal, ok := (*t.principals.Load())[sha256.Sum256([]byte(token))]
	return principal, ok
}

// Run reloads the file when its content changes (the file is small, and a mounted secret changes by a link's swap, which
// times and sizes may not show), until the context ends. A file that became bad is logged, and the last good one stays.
func (t *Tokens) Run(ctx context.Context) error {
	if !t.Required() {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(reloadInterval)
	defer ticker.Stop()
	complained := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := t.reload()
		switch {
		case err == nil:
			complained = ""
		case err.Error() != complained:
			complained = err.Error()
			t.logger.Error("the token file is bad; the last good one stays in force", "file", t.path, "error", err)
		}
	}
}

func (t *Tokens) reload() error {
	content, err := os.ReadFile(t.path)
	if err != nil || bytes.Equal(content, t.content) {
		return err
	}
	if err := t.take(content); err != nil {
		return err
	}
	t.logger.Info("tokens reloaded", "file", t.path, "principals", len(*t.principals.Load()))
	return nil
}

func (t *Tokens) take(content []byte) error {
	principals, err := parse(content)
	if err != nil {
		return fmt.Errorf("token file %s: %w", t.path, err)
	}
	t.principals.Store(&principals)
	t.content = content
	return nil
}

type entry struct {
	SHA256    string `yaml:"sha256"`
	Principal string `yaml:"principal"`
	Role      Role   `yaml:"role"`
}

func parse(content []byte) (map[hash]Principal, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	var entries []entry
	if err := decoder.Decode(&entries); err != nil && !errors.Is(err, io.EOF) {
		return nil, withoutValues(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it must be one YAML document; nothing after a second --- would be read")
	}
	if len(entries) == 0 {
		return nil, errors.New("it holds no entry, so nobody could call; each needs sha256, principal and role")
	}
	principals := make(map[hash]Principal, len(entries))
	for i, entry := range entries {
		key, err := entry.check()
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
		if other, taken := principals[key]; taken {
			return nil, fmt.Errorf("entry %d: sha256 is that of %s too; every token belongs to one principal", i+1, other.Name)
		}
		principals[key] = Principal{Name: entry.Principal, Role: entry.Role}
	}
	return principals, nil
}

var yamlValue = regexp.MustCompile("`[^`]*`")

// withoutValues keeps what the parser quotes from the file out of the log: it may be a token put there by mistake.
func withoutValues(err error) error {
	text := strings.ReplaceAll(err.Error(), " in type authn.entry", "; each entry has sha256, principal and role")
	text = strings.ReplaceAll(text, "into []authn.entry", "where a list of entries is wanted")
	text = strings.ReplaceAll(text, "into authn.entry", "where an entry is wanted")
	return errors.New(yamlValue.ReplaceAllString(text, "(hidden)"))
}

func (e entry) check() (hash, error) {
	var key hash
	raw, err := hex.DecodeString(e.SHA256)
	if err != nil || len(raw) != len(key) {
		return key, errors.New("sha256 must be the 64 hexadecimal digits of the token's SHA-256")
	}
	copy(key[:], raw)
	if e.Principal == "" || utf8.RuneCountInString(e.Principal) > maxPrincipal || strings.ContainsFunc(e.Principal, unicode.IsControl) {
		return key, fmt.Errorf("principal must be 1 to %d characters, none of them a control character", maxPrincipal)
	}
	if !slices.Contains(roles, e.Role) {
		return key, fmt.Errorf("role %q is none of %v", e.Role, roles)
	}
	return key, nil
}

// Useful returns an error where no principal may call any method of a policy, so that the file shuts all callers out.
func (t *Tokens) Useful(policy Policy) error {
	if !t.Required() {
		return nil
	}
	wanted := map[Role]bool{}
	for method, roles := range policy {
		for _, role := range roles {
			wanted[role] = true
		}
		for _, principal := range *t.principals.Load() {
			if policy.Allows(method, principal.Role) {
				return nil
			}
		}
	}
	return fmt.Errorf("no entry of %s may call anything here: their role must be one of %v", t.path, slices.Sorted(maps.Keys(wanted)))
}

// CheckFile checks a token file that may not be configured, and that it lets some caller in. Errors name the key.
func CheckFile(key, path string, policy Policy) error {
	tokens, err := ForFile(key, path, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := tokens.Useful(policy); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
