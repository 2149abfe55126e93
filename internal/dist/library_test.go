package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// After "make install" of the library for C, a program finds the library when it starts, because
// "make install" renews the dynamic linker's cache. If "make install" installs below another root
// (DESTDIR), it leaves the cache to whoever unpacks the files.
func TestLibraryForCIsFound(t *testing.T) {
	build := t.TempDir()
	for name, other := range map[string]bool{"here": false, "in another root": true} {
		dir := t.TempDir()
		prefix, root, ran := filepath.Join(dir, "prefix"), "", filepath.Join(dir, "ran")
		if other {
			root = filepath.Join(dir, "root")
		}
		out, err := exec.Command("make", "-C", "../../sdk/c", "install", "BUILD="+build,
			"PREFIX="+prefix, "DESTDIR="+root, "LDCONFIG=touch "+ran).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if library := filepath.Join(root+prefix, "lib/libcloudprofiler.so.1"); !exists(library) {
			t.Errorf("%s: there is no %s", name, library)
		}
		if _, err := os.Stat(ran); (err == nil) == other {
			t.Errorf("%s: ldconfig ran: %v, want %v", name, err == nil, !other)
		}
	}
}
