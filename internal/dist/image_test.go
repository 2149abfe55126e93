package dist

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// A descriptor names a blob of an OCI image.
type descriptor struct {
	Digest string
	Size   int64
}

// TestBarImage makes a container image of this archive. It checks that each blob agrees with its
// descriptor, and runs the daemons as the image's user, on a read-only root.
func TestBarImage(t *testing.T) {
	if proof.Begin(t) != proof.Full {
		t.Skip("make prove makes the image")
	}
	works := proof.Bar{Name: "commands that do not run in the container image", Unit: "commands"}
	if err := privileged.Check(); err != nil {
		works.Absent = err.Error()
		proof.Check(t, works)
		return
	}
	dir, to := archive(t), t.TempDir()
	file, layout, root := filepath.Join(to, "i.tar"), filepath.Join(to, "l"), filepath.Join(to, "r")
	do := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
	}
	do("../../scripts/image", dir, file)
	do("mkdir", layout, root)
	do("tar", "-xf", file, "-C", layout)
	open := func(d descriptor, into any) string {
		t.Helper()
		sum := strings.TrimPrefix(d.Digest, "sha256:")
		path := filepath.Join(layout, "blobs/sha256", sum)
		text, err := os.ReadFile(path)
		if err != nil || int64(len(text)) != d.Size ||
			fmt.Sprintf("%x", sha256.Sum256(text)) != sum {
			t.Fatalf("blob %+v has %d bytes, %v", d, len(text), err)
		}
		if into != nil {
			if err := json.Unmarshal(text, into); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal([]byte(read(t, layout, "index.json")), &index); err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	open(index.Manifests[0], &manifest)
	var config struct{ Config struct{ User string } }
	open(manifest.Config, &config)
	do("tar", "-xzf", open(manifest.Layers[0], nil), "-C", root)

	// The script runs in its own mount namespace, which ends with the shell.
	script := `set -e
mount --bind "$1" "$1"
mount -t tmpfs -o uid=65532 tmpfs "$1/var/lib/cloudprofiler"
mount -o remount,bind,ro "$1"
shift
exec "$@"`
	for _, command := range [][]string{
		{"/usr/bin/cprof", "version"}, {"/usr/bin/tsc-client", "--check"},
		{"/usr/bin/cp-agent", "--check", "--state", "/var/lib/cloudprofiler/agent"},
		{"/usr/bin/tsc-server", "--check", "--state", "/var/lib/cloudprofiler/server"},
		{"/usr/bin/cprof", "keys", "server", "--dir", "/var/lib/cloudprofiler"},
	} {
		args := append([]string{"--mount", "sh", "-c", script, "sh", root, "chroot",
			"--userspec=" + config.Config.User, "--groups=", root}, command...)
		if out, err := exec.Command("unshare", args...).CombinedOutput(); err != nil {
			works.Figure++
			t.Logf("%v: %v: %s", command, err, out)
		}
	}
	args := []string{"--mount", "sh", "-c", script, "sh", root, "chroot",
		"--userspec=" + config.Config.User, "--groups=", root, "/usr/bin/cprof", "keys", "server",
		"--dir", "/etc"}
	if out, err := exec.Command("unshare", args...).CombinedOutput(); err == nil {
		t.Errorf("the image's user wrote to /etc: %s", out)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("the image runs as %q", config.Config.User)
	}
	proof.Check(t, works)
}
