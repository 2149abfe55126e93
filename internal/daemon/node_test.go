package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What one process keeps of its epoch the next one reads; where nothing is kept there is no file and no directory.
func TestKeptEpoch(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	dir := filepath.Join(t.TempDir(), "rings")
	kept := keptEpoch(dir, log)
	read := func(want string) {
		t.Helper()
		if text, err := keptEpoch(dir, log).Read(); err != nil || string(text) != want {
			t.Errorf("%q is kept, want %q, %v", text, want, err)
		}
	}
	read("")
	kept.Write(nil)
	if _, err := os.Stat(dir); err == nil {
		t.Error("a directory was made for nothing")
	}
	kept.Write([]byte("one"))
	kept.Write([]byte("two"))
	read("two")
	kept.Write(nil)
	read("")
	if said.Len() > 0 {
		t.Errorf("said: %s", &said)
	}

	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Read(); err == nil {
		t.Error("what others can write is read")
	}
	kept.Write([]byte("three"))
	if !strings.Contains(said.String(), "will not know") {
		t.Errorf("it could not be kept, and was said: %q", &said)
	}
}
