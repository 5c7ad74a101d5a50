package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrOvertaken says that another replica committed a partition meanwhile. Nothing was written.
var ErrOvertaken = errors.New("another replica committed a partition meanwhile; nothing was written")

// ControlServerNotFoundError says that no control server has the name.
type ControlServerNotFoundError struct{ Name string }

func (e *ControlServerNotFoundError) Error() string {
	return fmt.Sprintf("there is no control server %q", e.Name)
}

// GroupNotFoundError says that no affinity group has the name.
type GroupNotFoundError struct{ Name string }

func (e *GroupNotFoundError) Error() string {
	return fmt.Sprintf("there is no affinity group %q", e.Name)
}

// UnknownAgentsError says which of many agents there are not.
type UnknownAgentsError struct{ Names []string }

// maxNamed is how many of them a text names.
const maxNamed = 20

func (e *UnknownAgentsError) Error() string {
	var quoted []string
	for _, name := range e.Names[:min(maxNamed, len(e.Names))] {
		quoted = append(quoted, strconv.Quote(name))
	}
	text := "there is no agent " + strings.Join(quoted, ", ")
	if more := len(e.Names) - len(quoted); more > 0 {
		text += fmt.Sprintf(", nor %d others that were named", more)
	}
	return text
}
