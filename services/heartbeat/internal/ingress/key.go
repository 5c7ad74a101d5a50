package ingress

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/commandcenter/fleet/services/internal/config"
)

const (
	// reloadInterval is how often the key's file is looked at.
	reloadInterval = 2 * time.Second
	// maxKey is how many characters a call can carry.
	maxKey = 256
)

// EnrolmentKey is the key that whoever installs agents gives them.
type EnrolmentKey struct {
	path   string // empty: every key is good
	logger *slog.Logger
	sum    atomic.Pointer[[sha256.Size]byte]
}

// OpenEnrolmentKey reads the key from its file. Without a file every key is good: only for listeners on loopback.
func OpenEnrolmentKey(setting, path string, logger *slog.Logger) (*EnrolmentKey, error) {
	k := &EnrolmentKey{path: path, logger: logger}
	if path == "" {
		return k, nil
	}
	_, err := k.read(setting)
	return k, err
}

// Matches tells whether an agent presented the key. The time it takes tells nothing about the key.
func (k *EnrolmentKey) Matches(presented string) bool {
	if k.path == "" {
		return true
	}
	sum := sha256.Sum256([]byte(presented))
	return subtle.ConstantTimeCompare(sum[:], k.sum.Load()[:]) == 1
}

// Run reads the file again until the context ends. While it is bad, which is logged, the last good key stays in force.
func (k *EnrolmentKey) Run(ctx context.Context) error {
	if k.path == "" {
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
		changed, err := k.read("enrolment key")
		switch {
		case err == nil:
			complained = ""
			if changed {
				k.logger.Info("enrolment key reloaded", "file", k.path)
			}
		case err.Error() != complained:
			complained = err.Error()
			k.logger.Error("the enrolment key's file is bad; the last good key stays in force", "file", k.path, "error", err)
		}
	}
}

func (k *EnrolmentKey) read(setting string) (changed bool, err error) {
	key, err := config.ReadSecretFile(setting, k.path)
	if err != nil {
		return false, err
	}
	if utf8.RuneCountInString(key.Reveal()) > maxKey {
		return false, fmt.Errorf("%s: the key in %s has more than %d characters, so that no call can present it", setting, k.path, maxKey)
	}
	sum := sha256.Sum256([]byte(key.Reveal()))
	before := k.sum.Swap(&sum)
	return before == nil || *before != sum, nil
}
