package leak

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestWhatIsLeftIsNamed(t *testing.T) {
	before := look()
	if err := before.left(0); err != nil {
		t.Fatalf("nothing was done, and it says: %v", err)
	}
	file := filepath.Join(t.TempDir(), "forgotten")
	if err := os.WriteFile(file, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}

	for name, leave := range map[string]func(t *testing.T) (named string, undo func()){
		"goroutine": func(*testing.T) (string, func()) {
			end := make(chan struct{})
			go waitFor(end)
			return "waitFor", func() { close(end) }
		},
		"descriptor": func(t *testing.T) (string, func()) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			return "1 descriptors: " + file, func() { f.Close() }
		},
		"mapping": func(t *testing.T) (string, func()) {
			gone := file + ".gone"
			if err := os.WriteFile(gone, make([]byte, 4096), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(gone)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			memory, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(gone); err != nil {
				t.Fatal(err)
			}
			return "1 mappings: " + gone, func() { unix.Munmap(memory) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			named, undo := leave(t)
			err := before.left(0)
			undo()
			if err == nil || !strings.Contains(err.Error(), named) {
				t.Errorf("%q is not in: %v", named, err)
			}
			if err := before.left(time.Minute); err != nil {
				t.Errorf("it is gone, and: %v", err)
			}
		})
	}
}

func waitFor(end chan struct{}) { <-end }
