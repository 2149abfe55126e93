package drain

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// A real file system becomes full, and later has space again.
func TestPrivilegedFullFileSystem(t *testing.T) {
	privileged.Need(t)
	r := newRig(t, Options{})
	r.killDrainer()
	if err := unix.Mount("tmpfs", r.logs, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(r.logs, unix.MNT_DETACH) })
	ballast := filepath.Join(r.logs, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 150<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	r.startRig(Options{})
	c := r.open("a/b", handlers.Options{Handler: "id", Policy: "drop", Buffer: "16KiB"})
	var id uint64
	log := func(rounds int) {
		for range rounds {
			for range 100 {
				c.Log(id)
				id++
			}
			r.advanceClock(DefaultPoll)
		}
	}
	log(150) // 15,000 uncompressed events take 234 KiB
	if s := r.statsOf("a/b"); s.Failure == nil || s.Dropped == 0 {
		t.Fatalf("the file system is not full: %+v", s)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	r.runFor(retryLast + checkPeriod)
	before := r.statsOf("a/b")
	if before.Failure != nil {
		t.Fatalf("%+v", before)
	}
	log(20)
	if after := r.statsOf("a/b"); after.Dropped != before.Dropped {
		t.Errorf("%d events dropped with space again", after.Dropped-before.Dropped)
	}
	c.Close()
	r.runFor(time.Second)
	k := readLogs(t, r.logs)["a/b"]
	k.checkIntact(t)
	if got := uint64(k.countRows()) + k.droppedRows(logstore.RingFull); got != id {
		t.Errorf("%d rows and %d dropped, want %d in all", k.countRows(),
			k.droppedRows(logstore.RingFull), id)
	}
}
