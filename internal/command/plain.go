package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plainWriter is the writer for all output of cprof. Names, errors and descriptions come from
// nodes, programs and files that may be hostile. A terminal would obey some characters instead of
// showing them. So plainWriter writes these characters as text. For example, ESC becomes \u001b,
// which JSON reads as the same character. Newlines and tabs pass unchanged. If a write ends in the
// middle of a character, plainWriter holds back the beginning of the character. So the caller must
// close a plainWriter at the end.
type plainWriter struct {
	to   io.Writer
	rest []byte // the incomplete character at the end of the last Write
}

func (p *plainWriter) Write(b []byte) (int, error) {
	n := len(b)
	if len(p.rest) > 0 {
		b = append(p.rest, b...)
		p.rest = nil
	}
	begin := 0 // the start of the part that is not written yet
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

// Close writes the incomplete character, if there is one.
func (p *plainWriter) Close() error {
	if len(p.rest) == 0 {
		return nil
	}
	p.rest = nil
	_, err := fmt.Fprintf(p.to, `\u%04x`, utf8.RuneError)
	return err
}

// commands reports whether a terminal would obey a character instead of showing it. A terminal
// obeys control characters, and characters that change the direction of writing.
func commands(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// FileOf returns the file to which a writer writes, if there is one.
func FileOf(w io.Writer) (*os.File, bool) {
	if p, ok := w.(*plainWriter); ok {
		w = p.to
	}
	file, ok := w.(*os.File)
	return file, ok
}

// Plain returns a text from elsewhere, in which each character that a terminal would obey is
// written as text. It is for output that moves the cursor, and therefore cannot go through the
// command's own writer.
func Plain(text string) string {
	var b strings.Builder
	p := &plainWriter{to: &b}
	_, _ = p.Write([]byte(text)) // writing to a Builder cannot fail
	_ = p.Close()
	return b.String()
}

// Line puts a text from elsewhere on one line, so that people do not mistake it for several lines.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, text)
}
