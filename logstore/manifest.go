package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ManifestName is the name of the manifest in a directory of logs.
const ManifestName = "manifest.txt"

// ErrManifest is returned for a manifest that is damaged, or has a version that this program does
// not know.
var ErrManifest = errors.New("bad manifest of logs")

// Manifest lists all segments of a directory, and is written when no more are expected. It can show
// two losses that no segment can show: all segments of a log are gone, or the end of a log that was
// never sealed is gone.
type Manifest []ManifestEntry

// ManifestEntry is a segment: the name of its file, and the file's fingerprint.
type ManifestEntry struct {
	Name  string
	Print Fingerprint
}

const (
	manifestMagic = "cloudprofiler-manifest "
	manifestLimit = 64 << 20 // in bytes; enough for half a million segments
)

// ExtendManifest adds to a directory's manifest the segments that the manifest does not list. It
// also replaces the entries of segments for which the function anew returns true. If anew is nil,
// it replaces no entries. Other entries stay. If there is no manifest, ExtendManifest creates one.
// It returns the errors of ReadManifest and of the system.
func ExtendManifest(dir string, anew func(Segment) bool) error {
	m, err := ReadManifest(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	segments, err := Segments(dir)
	if err != nil {
		return err
	}
	at := map[string]int{}
	for i, e := range m {
		at[e.Name] = i
	}
	for _, s := range segments {
		name := filepath.Base(s.Path)
		i, listed := at[name]
		if listed && (anew == nil || !anew(s)) {
			continue
		}
		print, err := fingerprintOf(OS{}, s.Path)
		if err != nil {
			return fmt.Errorf("extend manifest of %q: %w", dir, err)
		}
		if !listed {
			i, m = len(m), append(m, ManifestEntry{Name: name})
		}
		m[i].Print = print
	}
	if err := m.write(filepath.Join(dir, ManifestName)); err != nil {
		return fmt.Errorf("extend manifest of %q: %w", dir, err)
	}
	return nil
}

// write writes the manifest. The file appears at its path only when it is complete.
func (m Manifest) write(path string) error {
	unfinished := path + ".new"
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = file.Write(m.Encode())
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(unfinished, path)
	}
	if err != nil {
		os.Remove(unfinished)
	}
	return err
}

// ReadManifest reads the manifest of a directory. If there is no manifest, the error wraps
// fs.ErrNotExist. If the manifest is bad, the error wraps ErrManifest.
func ReadManifest(dir string) (Manifest, error) {
	path := filepath.Join(dir, ManifestName)
	text, err := readRegular(path)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	m, err := parseManifest(text)
	if err != nil {
		return nil, fmt.Errorf("read manifest %q: %w: %w", path, err, ErrManifest)
	}
	return m, nil
}

// readRegular reads a file that may be hostile. It reads only regular files, and at most
// manifestLimit + 1 bytes.
func readRegular(path string) ([]byte, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a regular file: %w", path, ErrManifest)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, manifestLimit+1))
}

// Encode returns the manifest as the text that ReadManifest parses.
func (m Manifest) Encode() []byte {
	text := fmt.Appendf(nil, "%s1\n", manifestMagic)
	for _, e := range m {
		text = fmt.Appendf(text, "segment %s %s\n", e.Name, e.Print)
	}
	return append(text, checksumLine(text)...)
}

func parseManifest(text []byte) (Manifest, error) {
	if len(text) > manifestLimit {
		return nil, fmt.Errorf("it is longer than %d bytes", manifestLimit)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	version, found := strings.CutPrefix(lines[0], manifestMagic)
	if !found {
		return nil, fmt.Errorf("it begins with %.40q, a manifest with %q", lines[0], manifestMagic)
	}
	last := lines[len(lines)-1] + "\n"
	if checksumLine(text[:max(len(text)-len(last), 0)]) != last {
		return nil, errors.New("it does not have its checksum")
	}
	if version != "1" {
		return nil, fmt.Errorf("it has version %q, this program reads 1", version)
	}
	var m Manifest
	for _, line := range lines[1 : len(lines)-1] {
		key, value, _ := strings.Cut(line, " ")
		if key != "segment" {
			continue // a later program of the same version wrote this line
		}
		name, print, _ := strings.Cut(value, " ")
		if _, ok := ParseSegment(name); !ok || filepath.Base(name) != name {
			return nil, fmt.Errorf("%q is not the name of a segment", name)
		}
		f, err := parseFingerprint(print)
		if err != nil {
			return nil, fmt.Errorf("segment %q: %w", name, err)
		}
		m = append(m, ManifestEntry{name, f})
	}
	return m, nil
}

// Departure is a file that differs from its entry in a manifest, and how it differs.
type Departure struct{ Name, Reason string }

// Check compares the segments in a directory with the manifest. A file that was made from another
// file may differ from its entry; Salvage makes such files.
func (m Manifest) Check(dir string) ([]Departure, error) {
	segments, err := Segments(dir)
	if err != nil {
		return nil, err
	}
	there := map[string]Segment{}
	for _, s := range segments {
		there[filepath.Base(s.Path)] = s
	}
	var all []Departure
	for _, e := range m {
		s, ok := there[e.Name]
		delete(there, e.Name)
		reason := fmt.Sprintf("it is gone: it had %d bytes", e.Print.Bytes)
		if ok {
			reason, err = e.differs(s)
		}
		if err != nil {
			return nil, fmt.Errorf("check manifest of %q: %w", dir, err)
		}
		if reason != "" {
			all = append(all, Departure{e.Name, reason})
		}
	}
	for name := range there {
		all = append(all, Departure{name, "it is not in the manifest: it came later"})
	}
	slices.SortFunc(all, func(a, b Departure) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// differs says how a file differs from its entry. It returns "" if the file does not differ.
func (e ManifestEntry) differs(s Segment) (string, error) {
	print, err := fingerprintOf(OS{}, s.Path)
	if err != nil || print == e.Print {
		return "", err
	}
	l, err := readLink(s)
	switch {
	case err != nil || l.known && l.header.Rewritten:
		return "", err
	case print.Bytes == e.Print.Bytes:
		return fmt.Sprintf("it is another file than it was, of the same %d bytes", print.Bytes), nil
	}
	return fmt.Sprintf("it is another file than it was: it has %d bytes, and had %d",
		print.Bytes, e.Print.Bytes), nil
}
