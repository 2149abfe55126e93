package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain is where all output of cprof goes. Names, errors and descriptions come from nodes, programs
// and files that need not mean well: what commands a terminal in place of being shown comes out as
// text, \u001b for ESC, which also JSON takes for the character that it was. Lines and tabs pass.
// Close it: an incomplete character waits for its end.
type plain struct {
	to   io.Writer
	rest []byte // of the last Write, of a character
}

func (p *plain) Write(b []byte) (int, error) {
	n := len(b)
	if len(p.rest) > 0 {
		b = append(p.rest, b...)
		p.rest = nil
	}
	begin := 0 // of what is still to be written as it is
	for i := 0; i < len(b); {
		if c := b[i]; c >= ' ' && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		if !utf8.FullRune(b[i:]) {
			if _, err := p.to.Write(b[begin:i]); err != nil {
				return 0, err
			}
			p.rest = append(p.rest, b[i:]...)
			return n, nil
		}
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 || commands(r) {
			if _, err := p.to.Write(b[begin:i]); err != nil {
				return 0, err
			}
			if _, err := fmt.Fprintf(p.to, `\u%04x`, r); err != nil {
				return 0, err
			}
			begin = i + size
		}
		i += size
	}
	if _, err := p.to.Write(b[begin:]); err != nil {
		return 0, err
	}
	return n, nil
}

// Close writes what waited.
func (p *plain) Close() error {
	if len(p.rest) == 0 {
		return nil
	}
	p.rest = nil
	_, err := fmt.Fprintf(p.to, `\u%04x`, utf8.RuneError)
	return err
}

// commands says whether a terminal would do something in place of showing the character: controls,
// and what turns the direction of writing.
func commands(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// FileOf returns the file that a writer leads to, if it is one.
func FileOf(w io.Writer) (*os.File, bool) {
	if p, ok := w.(*plain); ok {
		w = p.to
	}
	file, ok := w.(*os.File)
	return file, ok
}

// Line makes a text of somebody else's one line, so that it cannot pass for several.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, text)
}
