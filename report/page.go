package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
)

// page is a file that the command "make web" builds from web/. A test checks that it was built from
// the present source.
//
//go:embed page.html
var page []byte

// place is the text of the page that the data replace. It is the content of a script element that
// the browser does not run.
var place = []byte("{{report.Data}}")

// Write writes a page. The same data give the same bytes. Nil lists in the data become empty lists.
// The error wraps ErrData if the data cannot be shown, or if the page would be longer than
// MaxBytes.
func Write(w io.Writer, d *Data) error {
	if err := d.Check(); err != nil {
		return err
	}
	fillSlices(reflect.ValueOf(d).Elem())
	// encoding/json writes <, > and & as \u003c, \u003e and \u0026. So no name can end the script
	// element.
	text, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	head, tail, found := bytes.Cut(page, place)
	if !found {
		return fmt.Errorf("write report: the embedded page has no place for data: run make web")
	}
	if size := len(head) + len(text) + len(tail); size > MaxBytes {
		return fmt.Errorf("write report: %d bytes, at most %d: show fewer spans, tuples "+
			"or nodes: %w", size, MaxBytes, ErrData)
	}
	for _, part := range [][]byte{head, text, tail} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	return nil
}
