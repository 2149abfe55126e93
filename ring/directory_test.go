package ring

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

func TestDirectories(t *testing.T) {
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	must(t, os.Mkdir(at("good"), 0o700))
	must(t, os.Symlink(at("good"), at("link")))
	must(t, os.Symlink(at("nowhere"), at("dangling")))
	writeFile(t, at("file"), nil)
	for _, mode := range []os.FileMode{0o770, 0o707, 0o777} {
		must(t, os.Mkdir(at(mode.String()), 0o700))
		must(t, os.Chmod(at(mode.String()), mode))
	}
	must(t, os.Mkdir(at("readable"), 0o755))
	for dir, say := range map[string]string{
		at("good"): "", at("good") + "/": "", at("readable"): "",
		at("link"): "symbolic link", at("link") + "/": "symbolic link", at("link") +
			"/.": "symbolic link",
		at("file"):       "not a directory",
		at("-rwxrwx---"): "chmod 700", at("-rwx---rwx"): "chmod 700", at("-rwxrwxrwx"): "chmod 700",
	} {
		err := CheckDirectory(dir)
		if say == "" && err != nil || say != "" &&
			(!errors.Is(err, ErrDirectory) || !strings.Contains(err.Error(), say)) {
			t.Errorf("CheckDirectory(%q) = %v, want %q", dir, err, say)
		}
		made := MakeDirectory(dir)
		if (made == nil) != (err == nil) {
			t.Errorf("MakeDirectory(%q) = %v", dir, made)
		}
	}
	if err := MakeDirectory(at("dangling")); err == nil {
		t.Error("a dangling link is made a directory")
	}
	if err := CheckDirectory(at("none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	if err := MakeDirectory(""); err == nil || !strings.Contains(err.Error(), DirectoryVariable) {
		t.Errorf("no name: %v", err)
	}
	must(t, MakeDirectory(at("a/b/c")))
	for _, dir := range []string{"a", "a/b", "a/b/c"} {
		if info, err := os.Stat(at(dir)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v, %v", dir, info.Mode(), err)
		}
	}
}

func TestDefaultDirectory(t *testing.T) {
	t.Setenv(DirectoryVariable, "/some/where")
	if got := DefaultDirectory(); got != "/some/where" {
		t.Error(got)
	}
	t.Setenv(DirectoryVariable, "")
	if got := DefaultDirectory(); !strings.HasPrefix(got, "/dev/shm/cloudprofiler-") {
		t.Error(got)
	}
}

func TestInSharedMemory(t *testing.T) {
	if in, err := InSharedMemory("/proc"); err != nil || in {
		t.Errorf("/proc: %v, %v", in, err)
	}
	if _, err := InSharedMemory("/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"b.ring", "a.ring", "c.ring.part", "node", "drainer.lock", "ring",
	} {
		writeFile(t, filepath.Join(dir, name), nil)
	}
	got, err := Files(dir)
	if want := []string{filepath.Join(dir, "a.ring"), filepath.Join(dir, "b.ring")}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if got, err := Files(filepath.Join(dir, "none")); err != nil || got != nil {
		t.Errorf("no directory: %q, %v", got, err)
	}
	if _, err := Files(filepath.Join(dir, "node")); err == nil {
		t.Error("a file is listed")
	}
}

// NodeNumber reads a short regular file only. Programs may put anything into the directory: opening
// a FIFO would wait forever, and reading a device would not end.
func TestNodeNumberIsReadFromAShortFileOnly(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a FIFO": func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a link to an endless file": func(path string) error {
			return os.Symlink("/dev/zero", path)
		},
		"a link to one with another": func(path string) error { return os.Symlink(path+"2", path) },
		"a directory":                func(path string) error { return os.Mkdir(path, 0o700) },
		"a sparse terabyte": func(path string) error {
			writeFile(t, path, nil)
			return os.Truncate(path, 1<<40)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, nodeFile)
			writeFile(t, path+"2", []byte("7\n"))
			must(t, put(path))
			n, ok, err := NodeNumber(dir)
			if err == nil || ok || !strings.Contains(err.Error(), path) {
				t.Errorf("%d, %v, %v", n, ok, err)
			}
			if p, err := Create(dir, testConfig()); err == nil {
				p.Close()
				t.Error("a ring was made for a node whose number is not known")
			}
		})
	}
}

func TestLockIsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	must(t, unix.Mkfifo(path, 0o600))
	if f, err := OpenLocked(path); !errors.Is(err, plainfile.ErrNotRegular) {
		t.Errorf("a FIFO was locked: %v, %v", f, err)
	}
}

func TestNodeNumber(t *testing.T) {
	dir := t.TempDir()
	if n, ok, err := NodeNumber(dir); n != 0 || ok || err != nil {
		t.Errorf("none: %d, %v, %v", n, ok, err)
	}
	for _, want := range []int{0, 1, channel.MaxNode} {
		must(t, SetNodeNumber(dir, want))
		if n, ok, err := NodeNumber(dir); n != want || !ok || err != nil {
			t.Errorf("%d: %d, %v, %v", want, n, ok, err)
		}
		p := newRingIn(t, dir, 1)
		if p.NodeNumber != want || look(t, p.Path).Header().NodeNumber != want {
			t.Errorf("ring has node %d, want %d", p.NodeNumber, want)
		}
	}
	for _, bad := range []int{-1, channel.MaxNode + 1} {
		if err := SetNodeNumber(dir, bad); err == nil {
			t.Errorf("%d is taken", bad)
		}
	}
	for _, text := range []string{"", "\n", "x", "-1", "16384", "1 2", "0x1", "1.0",
		"99999999999999999999", strings.Repeat("9", 1000)} {
		writeFile(t, filepath.Join(dir, nodeFile), []byte(text))
		if n, ok, err := NodeNumber(dir); err == nil || ok || len(err.Error()) > 300 {
			t.Errorf("%.30q: %d, %v, %v", text, n, ok, err)
		}
	}
	writeFile(t, filepath.Join(dir, nodeFile), []byte(" 7 \n"))
	if n, ok, err := NodeNumber(dir); n != 7 || !ok || err != nil {
		t.Errorf("%d, %v, %v", n, ok, err)
	}
}
