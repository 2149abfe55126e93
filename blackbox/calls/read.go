package calls

import (
	"bufio"
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
	OTLP   Format = "otlp"   // JSON of OpenTelemetry
)

// ErrNoCalls is returned if the files contain no spans.
var ErrNoCalls = errors.New("no spans found")

// Read reads the traces in files, and in the files of directories. Each file may contain several
// JSON values, one after the other, and may be compressed with gzip.
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
			if path != name && !isTrace(path) {
				return nil
			}
			return b.file(path, decode)
		})
		if err != nil {
			return nil, fmt.Errorf("read traces: %w", err)
		}
	}
	set := b.finish()
	if set.Oddities.Spans == 0 {
		return nil, fmt.Errorf("read traces of %q: %w", names, ErrNoCalls)
	}
	return set, nil
}

// isTrace reports whether Read reads a file of a directory.
func isTrace(path string) bool {
	path = strings.TrimSuffix(path, ".gz")
	switch filepath.Ext(path) {
	case ".json", ".jsonl", ".ndjson":
		return true
	}
	return false
}

func (b *builder) file(path string, decode func(*builder, json.RawMessage) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = bufio.NewReaderSize(f, 1<<16)
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(r)
		if err != nil {
			return fmt.Errorf("decompress %q: %w", path, err)
		}
		r = z
	}
	d := json.NewDecoder(r)
	for {
		var value json.RawMessage
		err := d.Decode(&value)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = decode(b, value)
		}
		if err != nil {
			return fmt.Errorf("decode %q: %w", path, err)
		}
	}
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
