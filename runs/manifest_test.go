package runs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// completeWith makes a complete run in which node A has a log of three segments. It returns the
// names of the segments' files.
func completeWith(t *testing.T) (dir string, names []string) {
	t.Helper()
	parent := t.TempDir()
	d, err := Create(parent, exampleRun())
	if err != nil {
		t.Fatal(err)
	}
	logs, err := d.LogDirectory("A")
	if err != nil {
		t.Fatal(err)
	}
	name, err := channel.ParseName("map#3/start")
	if err != nil {
		t.Fatal(err)
	}
	h := logstore.Header{
		Node: "A", Epoch: "boot-9", Channel: name, Incarnation: logstore.Incarnation{1},
	}
	h.Settings.Kind = channel.Buffered
	l, err := logstore.OpenLog(nil, logs, h, 1) // with this size, each block begins a new segment
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(3) {
		events := []logstore.Event{{Counter: i, ID: i}}
		b := logstore.Block{Incarnation: h.Incarnation, First: i, Events: events}
		if err := l.Append(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Seal(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Complete(); err != nil {
		t.Fatal(err)
	}
	segments, err := logstore.Segments(filepath.Join(parent, d.Run().Name, "logs/A"))
	if err != nil || len(segments) != 3 {
		t.Fatal(segments, err)
	}
	for _, s := range segments {
		names = append(names, filepath.Base(s.Path))
	}
	return filepath.Join(parent, d.Run().Name), names
}

// lacksOf returns the parts of a run's logs that are missing.
func lacksOf(t *testing.T, dir string) (parts []string) {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, missing := d.Logs()
	for _, m := range missing {
		if m.Reason == "" {
			t.Errorf("%s is missing without a reason", m.Part)
		}
		parts = append(parts, m.Part)
	}
	return parts
}

// A complete run reports each segment that is gone, was changed, or was added later. It does so
// even if all segments of a log are gone.
func TestDepartedSegmentsAreMissing(t *testing.T) {
	const added = "x~y.00000000000000000000000000000000.000000.cplog"
	for name, c := range map[string]struct {
		harm func(t *testing.T, logs string, names []string) error
		want func(names []string) []string
	}{
		"nothing": {
			func(*testing.T, string, []string) error { return nil },
			func([]string) []string { return nil },
		},
		"first gone": {
			func(_ *testing.T, logs string, names []string) error {
				return os.Remove(filepath.Join(logs, names[0]))
			},
			func(names []string) []string { return names[:1] },
		},
		"last gone": {
			func(_ *testing.T, logs string, names []string) error {
				return os.Remove(filepath.Join(logs, names[2]))
			},
			func(names []string) []string { return names[2:] },
		},
		"last gone, no manifest": {
			func(_ *testing.T, logs string, names []string) error {
				return errors.Join(os.Remove(filepath.Join(logs, names[2])),
					os.Remove(filepath.Join(logs, logstore.ManifestName)))
			},
			func(names []string) []string { return names[2:] },
		},
		"all gone": {
			func(_ *testing.T, logs string, names []string) (err error) {
				for _, n := range names {
					err = errors.Join(err, os.Remove(filepath.Join(logs, n)))
				}
				return err
			},
			func(names []string) []string { return names },
		},
		"manifest cut": {
			func(_ *testing.T, logs string, names []string) error {
				return os.Truncate(filepath.Join(logs, logstore.ManifestName), 60)
			},
			func([]string) []string { return []string{logstore.ManifestName} },
		},
		"manifest is no file": {
			func(_ *testing.T, logs string, names []string) error {
				path := filepath.Join(logs, logstore.ManifestName)
				return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path))
			},
			func([]string) []string { return []string{logstore.ManifestName} },
		},
		"cut": {
			func(_ *testing.T, logs string, names []string) error {
				return os.Truncate(filepath.Join(logs, names[2]), 900)
			},
			func(names []string) []string { return names[2:] },
		},
		"added": {
			func(t *testing.T, logs string, names []string) error {
				_, text := segment(t)
				return os.WriteFile(filepath.Join(logs, added), text, 0o600)
			},
			func([]string) []string { return []string{added} },
		},
	} {
		dir, names := completeWith(t)
		if err := c.harm(t, filepath.Join(dir, "logs/A"), names); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, n := range c.want(names) {
			want = append(want, "logs/A/"+n)
		}
		if got := lacksOf(t, dir); !slices.Equal(got, want) {
			t.Errorf("%s: missing %q, want %q", name, got, want)
		}
	}
}

// When a run is continued, its manifest stays valid. It gets entries for the segments that are
// added.
func TestManifestOfAReopenedRun(t *testing.T) {
	dir, names := completeWith(t)
	logs := filepath.Join(dir, "logs/A")
	last, err := os.ReadFile(filepath.Join(logs, names[2]))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(logs, names[2]), last[:900], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(logs, names[0])); err != nil {
		t.Fatal(err)
	}
	d, err := Reopen(filepath.Dir(dir), filepath.Base(dir))
	if err != nil {
		t.Fatal(err)
	}
	file, text := segment(t)
	file = strings.Replace(file, "map#3", "map#4", 1)
	if err := errors.Join(d.AddLog("B.b_2", file, bytes.NewReader(text)),
		d.AddLog("A", file, bytes.NewReader(text)),
		d.AddLog("A", names[2], bytes.NewReader(last))); err != nil {
		t.Fatal(err)
	}
	missing, err := d.Complete()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"logs/A/" + names[0]}
	if got := lacksOf(t, dir); !slices.Equal(got, want) {
		t.Errorf("missing %q, want %q", got, want)
	}
	if !slices.ContainsFunc(missing, func(m Missing) bool { return m.Part == want[0] }) {
		t.Errorf("the run says that %v is missing", missing)
	}
	for _, node := range []string{"A", "B.b_2"} {
		if err := os.Remove(filepath.Join(dir, "logs", node, file)); err != nil {
			t.Fatal(err)
		}
		want = append(want, "logs/"+node+"/"+file)
	}
	slices.Sort(want)
	if got := lacksOf(t, dir); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("missing %q, want %q", got, want)
	}
}
