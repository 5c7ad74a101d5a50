package disk

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

const (
	tokenBytes  = 32 // 256 bits
	tokenLength = 43 // characters in base64url without padding
)

// NewToken draws a token, which is what an agent is known by: 256 random bits in base64url without padding.
func NewToken() (string, error) {
	bits := make([]byte, tokenBytes)
	if _, err := rand.Read(bits); err != nil {
		return "", fmt.Errorf("no random token: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(bits), nil
}

// Token reads the agent's token, or makes it, once: it is on disk, for its owner only, when Token returns, since who presents another
// one later is another machine to the control plane. A damaged file is therefore an error, and is left as it is.
func Token(path string) (string, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeToken(path)
	}
	if err != nil {
		return "", fmt.Errorf("the token %s can't be read: %w", path, err)
	}
	token := string(content)
	if n := len(token); n > 0 && token[n-1] == '\n' {
		token = token[:n-1]
	}
	if bits, err := base64.RawURLEncoding.Strict().DecodeString(token); err != nil || len(bits) != tokenBytes || len(token) != tokenLength {
		return "", fmt.Errorf("the token %s is damaged: it is not %d characters of base64url; nothing was changed. Restore the file; or delete it, so that "+
			"the agent makes another token, and have an operator reset the one that the control plane knows for this agent", path, tokenLength)
	}
	return token, nil
}

func makeToken(path string) (string, error) {
	token, err := NewToken()
	if err == nil {
		err = saveToken(path, token, openPrivate)
	}
	if err != nil {
		return "", fmt.Errorf("the token %s can't be made, and the agent does not register without: %w", path, err)
	}
	return token, nil
}

func saveToken(path, token string, open opener) error {
	if err := replace(path, []byte(token+"\n"), open); err != nil {
		return err
	}
	return SyncFolder(path)
}

// opener opens a file to write; tests have it fail.
type opener func(path string, flag int) (file, error)

// openPrivate opens a file that its owner alone may read.
func openPrivate(path string, flag int) (file, error) { return os.OpenFile(path, flag, 0o600) }

// file is what is needed of one.
type file interface {
	io.WriteCloser
	Sync() error
}

// replace the file as a whole: after a crash it is what it was, or holds the data.
func replace(path string, data []byte, open opener) error {
	fresh := path + ".new"
	err := write(fresh, data, open)
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		_ = os.Remove(fresh)
	}
	return err
}
