package config

import (
	"errors"
	"fmt"
)

// Problems collects everything wrong with a configuration, so that one start shows it all.
type Problems []error

// Add notes what is wrong with a key.
func (p *Problems) Add(key, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
}

// AddError notes an error that names its key already. Nil is nothing.
func (p *Problems) AddError(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}

// Err is nil when nothing is wrong.
func (p Problems) Err() error { return errors.Join(p...) }
