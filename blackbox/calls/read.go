package calls

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Format is a format of recorded traces.
type Format string

const (
	Jaeger Format = "jaeger" // JSON of Jaeger's query service, or of its storage
	OTLP   Format = "otlp"   // JSON or protocol buffers of OpenTelemetry
)

// ErrNoCalls is returned if the files contain no spans.
var ErrNoCalls = errors.New("no spans found")

// Read reads the traces in files, and in the files of directories. Each file may contain several
// JSON values, one after the other, and may be compressed with gzip. In a directory, Read ignores
// files of other kinds. It leaves out what it cannot read, and counts it.
func Read(format Format, names ...string) (*Set, error) {
	var decode func(*builder, json.RawMessage) error
	switch format {
	case Jaeger:
		decode = (*builder).jaeger
	case OTLP:
		decode = (*builder).otlp
	default:
		return nil, fmt.Errorf("read traces: format %q is not known: use %q or %q",
			format, Jaeger, OTLP)
	}
	b := newBuilder()
	for _, name := range names {
		err := filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			return b.readFile(path, path == name, format, decode)
		})
		if err != nil {
			return nil, fmt.Errorf("read traces: %w", err)
		}
	}
	if set := b.finish(); set.Oddities.Spans > 0 {
		return set, nil
	}
	err := fmt.Errorf("read traces of %q as %s: %w", names, format, ErrNoCalls)
	switch why := b.set.Oddities.Why; {
	case why != "":
		return nil, fmt.Errorf("%w: %s", err, why)
	case b.files == 0:
		return nil, fmt.Errorf("%w: no file in these directories begins like a trace", err)
	}
	return nil, fmt.Errorf("%w: are they traces of another format than %s?", err, format)
}

const longestProto = 2 << 30 // bytes of a file of protocol buffers

// readFile reads a file. If the caller of Read did not name the file, but only its directory, a
// file of another kind is left out.
func (b *builder) readFile(path string, named bool, format Format,
	decode func(*builder, json.RawMessage) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b.path = path
	r := bufio.NewReaderSize(f, 1<<16)
	if magic, _ := r.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(r)
		if err != nil {
			b.countMalformed(err)
			return nil
		}
		r = bufio.NewReaderSize(z, 1<<16)
	}
	if mark, _ := r.Peek(3); string(mark) == "\ufeff" {
		r.Discard(3)
	}
	begin, _ := r.Peek(64)
	isText := strings.ContainsAny(firstLetter(begin), "{[")
	var from io.Reader = r
	// If the first byte is a line feed, the file may be a protocol buffer, even if it looks like
	// text.
	if format == OTLP && len(begin) > 0 && (!isText || begin[0] == '\n') {
		var raw bytes.Buffer
		if _, err := raw.ReadFrom(io.LimitReader(r, longestProto)); err != nil {
			b.countMalformed(err)
			return nil
		}
		if b.protoFile(raw.Bytes()) {
			return nil
		}
		from = io.MultiReader(&raw, r)
	}
	if !isText {
		if named {
			not := "JSON"
			if format == OTLP {
				not = "JSON, and is no protocol buffer of OpenTelemetry"
			}
			if len(begin) == 0 {
				b.countMalformed(errors.New("it is empty"))
				return nil
			}
			b.countMalformed(fmt.Errorf("it begins like no %s", not))
		}
		return nil
	}
	b.files++
	d := json.NewDecoder(from)
	for {
		var value json.RawMessage
		err := d.Decode(&value)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = decode(b, value)
		}
		if err != nil { // the rest of the file cannot be read, either
			b.countMalformed(err)
			return nil
		}
	}
}

// firstLetter returns the first character of a text that is no space. It returns "" if there is
// none.
func firstLetter(text []byte) string {
	text = bytes.TrimSpace(text)
	return string(text[:min(1, len(text))])
}

// attributes are what a span or a program says about itself.
type attributes map[string]string

// instance is the name of one copy of a program.
func (a attributes) instance() string {
	return a.first("service.instance.id", "k8s.pod.name", "hostname", "host.name", "ip")
}

// peer is the name of a program that was called, but not observed.
func (a attributes) peer() string {
	if name := a.first("peer.service", "db.system", "db.system.name", "messaging.system",
		"server.address", "net.peer.name", "peer.hostname", "peer.address"); name != "" {
		return name
	}
	return "not named"
}

func (a attributes) first(keys ...string) string {
	for _, k := range keys {
		if a[k] != "" {
			return a[k]
		}
	}
	return ""
}
