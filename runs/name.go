package runs

import (
	"errors"
	"fmt"
	"strings"
)

// ErrName is returned for a name that a run or a node cannot have. Names are restricted because
// they are parts of paths.
var ErrName = errors.New("bad name")

// maxNameBytes is the largest length of the name of a run or a node.
const maxNameBytes = 100

// incompleteEnd is the end of the name of an incomplete run.
const incompleteEnd = ".part"

// CheckName returns nil if a run may have this name. The error wraps ErrName.
func CheckName(name string) error {
	if err := checkWord("run", name); err != nil {
		return err
	}
	if strings.HasSuffix(name, incompleteEnd) {
		return fmt.Errorf("check run name %q: it ends in %q, which marks incomplete runs: %w",
			name, incompleteEnd, ErrName)
	}
	return nil
}

// CheckNodeName returns nil if a node of a run may have this name. The error wraps ErrName.
func CheckNodeName(name string) error { return checkWord("node", name) }

func checkWord(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("check %s name: it is empty: use letters, digits, '-', '_' and '.': %w",
			what, ErrName)
	case len(name) > maxNameBytes:
		return fmt.Errorf("check %s name %.40q…: %d bytes, at most %d: %w", what, name, len(name),
			maxNameBytes, ErrName)
	case name[0] == '.' || name[0] == '-':
		return fmt.Errorf("check %s name %q: begin with a letter or a digit: %w", what, name,
			ErrName)
	}
	for i := range len(name) {
		c := name[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' ||
			c == '_' || c == '.') {
			return fmt.Errorf("check %s name %q: %q is not a letter, a digit, '-', '_' or '.': %w",
				what, name, name[i:i+1], ErrName)
		}
	}
	return nil
}
