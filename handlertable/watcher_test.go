package handlertable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	ruleID     = "version: 1\nrules:\n- {channel: \"*\", handler: id}\n"
	ruleCount  = "version: 1\nrules:\n- {channel: \"*\", handler: counter}\n"
	ruleBroken = "version: 1\nrules:\n- {channel: \"*\", handler: "
)

func TestWatcherKeepsTheLastGood(t *testing.T) {
	text, readErr := ruleID, error(nil)
	w, err := watch("t.yaml", func(string) ([]byte, error) { return []byte(text), readErr })
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	for i, step := range []struct {
		text    string
		err     error
		changed bool
		say     string
		handler string
	}{
		{text: ruleID, handler: "id"},
		{text: ruleCount, changed: true, handler: "counter"},
		{text: ruleBroken, say: "line 3", handler: "counter"},
		{text: ruleBroken, say: "line 3", handler: "counter"},
		{text: ruleCount, handler: "counter"},
		{text: "# a comment\n" + ruleCount, handler: "counter"},
		{err: gone, say: "gone", handler: "counter"},
		{text: ruleCount, handler: "counter"},
		{err: gone, say: "gone", handler: "counter"},
		{text: ruleID, changed: true, handler: "id"},
		{text: "version: 1\nrules: []\n", changed: true, handler: ""},
	} {
		text, readErr = step.text, step.err
		changed, err := w.Look()
		if changed != step.changed || (err != nil) != (step.say != "") ||
			err != nil && !strings.Contains(err.Error(), step.say) {
			t.Errorf("step %d: changed %v, %v, want %v, %q", i, changed, err, step.changed,
				step.say)
		}
		rule, ok := w.Table().For("n", name(t, "a/b"))
		if got := rule.Settings.Kind.String(); ok && got != step.handler ||
			ok != (step.handler != "") {
			t.Errorf("step %d: handler %s, %v, want %q", i, got, ok, step.handler)
		}
	}
}

func TestWatchReadsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.yaml")
	if _, err := Watch(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	if _, err := Watch(path); !errors.Is(err, ErrTable) {
		t.Errorf("an empty file: %v", err)
	}
	write(ruleBroken)
	if _, err := Watch(path); !errors.Is(err, ErrTable) {
		t.Errorf("a broken file: %v", err)
	}
	write(ruleID)
	w, err := Watch(path)
	if err != nil {
		t.Fatal(err)
	}
	write(ruleCount)
	if changed, err := w.Look(); !changed || err != nil {
		t.Errorf("Look = %v, %v", changed, err)
	}
}
