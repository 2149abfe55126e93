package drain

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// forgeIdentity changes a ring's identity and corrects the checksum.
func forgeIdentity(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	const atChecksum = 248
	patchFile(t, path, at, b)
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := crc32.Checksum(image[:atChecksum], crc32.MakeTable(crc32.Castagnoli))
	patchFile(t, path, atChecksum, binary.NativeEndian.AppendUint32(nil, sum))
}

// forgetBoot removes the boot id from a ring, as if its program had no /proc.
func forgetBoot(t *testing.T, path string) {
	t.Helper()
	forgeIdentity(t, path, 48, make([]byte, 16))
}

// If a ring's header has no boot id, the drainer assumes in two cases that the ring is from the
// present boot: a program has the ring open, or the ring is on a memory file system, which a boot
// empties.
func TestRingOfAnUnknownBoot(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "cloudprofiler-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, rings := range []string{dir, t.TempDir()} {
		memory, err := ring.InSharedMemory(rings)
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, rings: rings, logs: filepath.Join(t.TempDir(), "logs")}
		r.startRig(Options{Epoch: func() string { return "now" }})
		living, dead := r.open("a/living", handlers.Options{}), r.open("a/dead", handlers.Options{})
		logMany(living, 0, 10)
		logMany(dead, 0, 10)
		forgetBoot(t, living.Path())
		forgetBoot(t, dead.Path())
		dead.Close()
		r.runFor(2 * time.Second)
		logs := readLogs(t, r.logs)
		if epoch := logs["a/living"].header.Epoch; epoch != "now" {
			t.Errorf("in memory %v: a ring that is open is of epoch %q", memory, epoch)
		}
		if epoch := logs["a/dead"].header.Epoch; (epoch == "now") != memory {
			t.Errorf("in memory %v: a ring whose program is dead is of epoch %q", memory, epoch)
		}
		r.d.Close()
		r.killDrainer()
	}
}

// If nobody knows in which epoch rows were logged, their epoch gets a name that no other epoch has.
// So no relation applies to them.
func TestUnknownBootsRelateToNothing(t *testing.T) {
	o := Options{Epoch: func() string { return "now" }}
	one, other := o.epochNow(ring.Header{Incarnation: [16]byte{1}}), o.epochNow(ring.Header{
		Incarnation: [16]byte{2},
	})
	if one == other || one == "now" || strings.Contains(one, "boot 0") {
		t.Errorf("epochs %q and %q", one, other)
	}
	if epoch := processEpoch(); epoch == one || epoch != processEpoch() ||
		strings.Contains(epoch, "boot 0") {
		t.Errorf("this process's epoch is %q", epoch)
	}
}
