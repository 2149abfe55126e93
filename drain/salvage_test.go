package drain

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// Salvage adds what is still in the rings of dead programs to the logs that a dead drainer left,
// each record once. If Salvage is told to write elsewhere, it begins a new log there, which says
// how many earlier records it lacks.
func TestSalvageGoesOnWithTheLog(t *testing.T) {
	for name, same := range map[string]bool{"where the log was begun": true, "elsewhere": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{})
			c := r.open("a/x", handlers.Options{Handler: "id"})
			alive := r.open("b/x", handlers.Options{Handler: "id"})
			logMany(c, 0, 100)
			alive.Log(7)
			r.runFor(time.Second)
			r.killDrainer()
			logMany(c, 100, 150)
			path := c.Path()
			c.Close()
			to := r.logs
			if !same {
				to = filepath.Join(t.TempDir(), "logs")
			}
			got, err := Salvage(r.rings, []string{path, alive.Path()}, Options{
				Logs: to, Node: "node-1",
			})
			if err != nil || len(got) != 2 || got[0].Err != nil || got[0].Stats.Events != 50 ||
				!errors.Is(got[1].Err, ErrAlive) {
				t.Fatalf("%+v, %v", got, err)
			}
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Error("the ring is still there:", err)
			}
			if _, err := os.Stat(alive.Path()); err != nil {
				t.Error(err)
			}
			k := readLogs(t, to)["a/x"]
			if !k.report.Sealed || !k.report.Whole() {
				t.Errorf("%+v", k.report)
			}
			from, missing := uint64(0), uint64(0)
			if !same {
				from, missing = 100, 100
			}
			ids := k.ids()
			if uint64(len(ids)) != 150-from || ids[0] != from ||
				k.droppedRows(logstore.Damaged) != missing || got[0].Stats.Missing != missing {
				t.Errorf("%d events from %d on, %d said to be missing", len(ids), ids[0],
					k.droppedRows(logstore.Damaged))
			}
			if _, err := Salvage(r.rings, []string{alive.Path()}, Options{Logs: to}); err != nil {
				t.Errorf("the directory is still locked: %v", err)
			}
		})
	}
}

// If Salvage cannot write a ring's log, the ring stays as it is.
func TestSalvageWithoutADisk(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/x", handlers.Options{Handler: "id"})
	logMany(c, 0, 100)
	path := c.Path()
	c.Close()
	if _, err := Salvage(r.rings, []string{path}, Options{Logs: r.logs}); !errors.Is(err,
		ring.ErrLocked) {
		t.Errorf("beside a drainer: %v", err)
	}
	r.killDrainer()
	got, err := Salvage(r.rings, []string{path}, Options{
		Logs: r.logs, FileSystem: &fullDisk{logstore.OS{}, 100},
	})
	if err != nil || len(got) != 1 || got[0].Err == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	got, err = Salvage(r.rings, []string{path}, Options{Logs: r.logs})
	if err != nil || got[0].Err != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := readLogs(t, r.logs)["a/x"].countRows(); n != 100 {
		t.Errorf("%d events", n)
	}
}
