package config

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

const redacted = "[redacted]"

// Secret is a text that no log, error or printout shows. Keep it in exported fields, or log none of the struct: fmt does not
// ask the values of unexported fields how they want to be shown.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// Set sets it, for callers that cannot name the type.
func (s *Secret) Set(text string) { *s = Secret(text) }

// String hides the secret.
func (s Secret) String() string { return redacted }

// Format hides the secret from every verb of fmt, wrong ones too.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the secret from JSON, YAML and the like.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// ReadSecretFile reads the secret in a file; surrounding white space does not count. Errors name the key.
func ReadSecretFile(key, path string) (Secret, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: the secret file cannot be read: %w", key, err)
	}
	text := strings.TrimSpace(string(raw))
	if text == "" {
		return "", fmt.Errorf("%s: the secret file %s is empty", key, path)
	}
	return Secret(text), nil
}
