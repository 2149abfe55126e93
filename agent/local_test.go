package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// If this user has no agent, the error names the directories in which other users may have one.
func TestNoAgentOfThisUser(t *testing.T) {
	parent := t.TempDir()
	own, other := filepath.Join(parent, "cloudprofiler-0"), filepath.Join(parent, "cloudprofiler-7")
	for _, dir := range []string{other, filepath.Join(parent, "cloudprofiler-test8")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(parent, "cloudprofiler-8"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if !errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(), "start cp-agent") ||
			!strings.Contains(err.Error(), "cprof … --rings "+other) ||
			strings.Contains(err.Error(), "cloudprofiler-8") ||
			strings.Contains(err.Error(), "cloudprofiler-test8") {
			t.Error(err)
		}
	}
	_, err := Connect(own)
	check(err)
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	local, err := Connect(own)
	if err != nil {
		t.Fatal(err)
	}
	_, err = local.Status(t.Context())
	check(err)
	if strings.Contains(err.Error(), "--rings "+own) {
		t.Errorf("the error sends the user to the directory that has no agent: %v", err)
	}
}

// For a directory of root, such as /proc/sys, AsOwner returns a command with sudo. For a directory
// of this user, it returns "".
func TestAsOwner(t *testing.T) {
	own := t.TempDir()
	if got := AsOwner(own); got != "" {
		t.Errorf("for its own directory: %q", got)
	}
	if got := AsOwner("/proc/sys"); os.Geteuid() != 0 && got != "sudo -u root " {
		t.Errorf("for a directory of root: %q", got)
	}
}

// If a directory of rings belongs to another user, the error says who owns it, and how to become
// that user.
func TestPrivilegedAgentOfAnotherUser(t *testing.T) {
	privileged.Need(t)
	dir := filepath.Join(t.TempDir(), "cloudprofiler-65534")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	_, err := Connect(dir)
	if !errors.Is(err, ring.ErrDirectory) || !strings.Contains(err.Error(),
		"belongs to user nobody and this is user root: run this as its owner (sudo -u nobody …), "+
			"or set --rings or $CLOUDPROFILER_DIR to") {
		t.Error(err)
	}
	_, err = Connect(filepath.Join(filepath.Dir(dir), "cloudprofiler-0"))
	if !errors.Is(err, ErrNoAgent) || !strings.Contains(err.Error(),
		"sudo -u nobody cprof … --rings "+dir+":") {
		t.Error(err)
	}
}
