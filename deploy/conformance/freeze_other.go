//go:build !linux && !darwin

package conformance

import (
	"context"
	"errors"
	"fmt"
)

// Freeze implements Freezer: it can't be done here.
func (p *Program) Freeze(context.Context) error {
	return fmt.Errorf("a process can be made to stand still on Linux and macOS only: %w", errors.ErrUnsupported)
}

// Thaw implements Freezer.
func (p *Program) Thaw() error { return nil }
