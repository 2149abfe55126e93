package plainfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNamesOfUsers(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "passwd"),
		"root:x:0:0:root:/root:/bin/sh\n+\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:10:10::/:\n")
	for uid, want := range map[uint32]string{
		0: "root", 10: "bob", 100: "'#100'", 1000: "ann", 1 << 31: "'#2147483648'",
	} {
		if got := nameIn(path, uid); got != want {
			t.Errorf("user %d: %q, want %q", uid, got, want)
		}
	}
	if got := nameIn(path+".none", 0); got != "'#0'" {
		t.Errorf("without a file: %q", got)
	}
}

// If a user may not read a file, the error says who the user is and who owns the file.
func TestAnotherUsersFile(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "key"), "text")
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Geteuid() == 0 { // root may read every file, so this thread gives that up for a moment
		const nobody = 65534
		if err := unix.Setfsuid(nobody); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Read(path, 100)
	if os.Geteuid() == 0 {
		if err := unix.Setfsuid(0); err != nil {
			t.Fatal(err)
		}
	}
	me := UserName(uint32(os.Geteuid()))
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "this is user "+me) {
		t.Error(err)
	}
	want := "this is user " + me + ", and the file belongs to user " + me
	if err := addOwner(path, fs.ErrPermission); !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
