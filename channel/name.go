package channel

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrName is returned when a channel name does not have the form actor[#instance]/point.
var ErrName = errors.New("bad channel name")

// The analysis gives a meaning to these points. A name may also use any other word as its point.
const (
	PointStart = "start" // an operator starts to work on a tuple
	PointEnd   = "end"   // an operator is done with a tuple
	PointSend  = "send"  // a tuple is handed to the transport
	PointRecv  = "recv"  // a tuple was taken from the transport
)

// MaxNameBytes is the length of the longest allowed channel name.
const MaxNameBytes = 128

// Name is a place in a program where events are logged: the operator (Actor), the operator's
// instance, and the point in the operator's work.
type Name struct {
	Actor    string
	Instance int // 0 to MaxInstance; 0 if the text has no instance
	Point    string

	instanceGiven bool
}

// ParseName reads actor[#instance]/point. The error wraps ErrName.
func ParseName(s string) (Name, error) {
	if len(s) > MaxNameBytes {
		return Name{}, fmt.Errorf("parse channel name %.40q…: %d bytes, at most %d: %w",
			s, len(s), MaxNameBytes, ErrName)
	}
	left, point, found := strings.Cut(s, "/")
	if !found {
		return Name{}, fmt.Errorf("parse channel name %q: no point: write actor/point, "+
			"such as %q: %w", s, "parser/start", ErrName)
	}
	actor, number, numbered := strings.Cut(left, "#")
	n := Name{Actor: actor, Point: point, instanceGiven: numbered}
	if numbered {
		v, err := strconv.ParseUint(number, 10, 16)
		if err != nil || v > MaxInstance || strconv.FormatUint(v, 10) != number {
			return Name{}, fmt.Errorf("parse channel name %q: instance %q is not a number from "+
				"0 to %d: %w", s, number, MaxInstance, ErrName)
		}
		n.Instance = int(v)
	}
	for _, part := range []struct{ what, text string }{{"actor", actor}, {"point", point}} {
		if part.text == "" {
			return Name{}, fmt.Errorf("parse channel name %q: empty %s: write actor/point, "+
				"such as %q: %w", s, part.what, "parser/start", ErrName)
		}
		if i := strings.IndexFunc(part.text, notInWord); i >= 0 {
			return Name{}, fmt.Errorf("parse channel name %q: %s has %q: use letters, digits, "+
				"'-', '_' and '.': %w", s, part.what, part.text[i:i+1], ErrName)
		}
		if part.text[0] == '.' {
			return Name{}, fmt.Errorf("parse channel name %q: %s starts with '.': start it with "+
				"a letter or a digit: %w", s, part.what, ErrName)
		}
	}
	return n, nil
}

// notInWord returns true for a character that a name cannot have. A name has only plain ASCII
// characters, so that it is written in the same way in file names, YAML and URLs.
func notInWord(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_',
		r == '.':
		return false
	}
	return true
}

// String returns the name in the form that ParseName reads.
func (n Name) String() string {
	if n.instanceGiven || n.Instance != 0 {
		return fmt.Sprintf("%s#%d/%s", n.Actor, n.Instance, n.Point)
	}
	return n.Actor + "/" + n.Point
}

// FileStem returns the name in a form for file names: '~' replaces '/'. No name contains '~'.
func (n Name) FileStem() string { return strings.Replace(n.String(), "/", "~", 1) }

// ParseFileStem parses a text that FileStem returned.
func ParseFileStem(s string) (Name, error) { return ParseName(strings.Replace(s, "~", "/", 1)) }
