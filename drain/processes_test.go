package drain

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// If a program's rings name another process, the program uses up its own allowance, and not the
// other process's allowance.
func TestRingsOfAnothersProcessID(t *testing.T) {
	s := newScene(t)
	liar, honest := s.StartProgram(), s.StartProgram()
	var files []string
	testimony.WaitFor(t, "the programs' rings", func() bool {
		files, _ = ring.Files(s.Rings)
		return len(files) == 2*programRings
	})
	for _, path := range files {
		l, err := ring.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if l.Header().ProcessID == liar.Process.Pid {
			forgeIdentity(t, path, 88,
				binary.NativeEndian.AppendUint32(nil, uint32(honest.Process.Pid)))
		}
		l.Close()
	}
	r := &rig{t: t, rings: s.Rings, logs: s.logs}
	r.startRig(Options{MaxProcessRings: programRings})
	defer r.killDrainer()
	r.runFor(5 * time.Second)
	stats := r.d.Stats()
	if len(stats.Rings) != 2*programRings || stats.Left != 0 || len(stats.Processes) != 2 {
		t.Fatalf("%d rings, left %d: %v, of processes %+v", len(stats.Rings), stats.Left,
			stats.LeftWhy, stats.Processes)
	}
	if p := stats.Processes; p[0].ProcessID != unknownProcess || p[0].Rings != programRings ||
		p[1].ProcessID != honest.Process.Pid || p[1].Rings != programRings {
		t.Errorf("processes %+v", p)
	}
}

func TestFilesOf(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/x", handlers.Options{})
	r.advanceClock(0)
	own := r.d.sources[c.Path()]
	if open, known := filesOf(own.process); !known || !open[own.file] {
		t.Errorf("known %v: %v is not among %d files", known, own.file, len(open))
	}
	if _, known := filesOf(process{own.process.namespace + 1, own.process.id}); known {
		t.Error("a process of another namespace is looked for in this one")
	}
	if open, known := filesOf(process{own.process.namespace, 1 << 30}); !known || len(open) > 0 {
		t.Errorf("of a process that is not there: %v, %v", open, known)
	}
}

// Living programs have too many rings, but the drainer still drains the rings of dead programs.
// Some dead programs named another process, and some have the process id of a living program.
func TestRingsOfProgramsThatHaveEnded(t *testing.T) {
	r := newRig(t, Options{MaxProcessRings: 2})
	for i := range 5 {
		c := r.open(fmt.Sprintf("liar/x%d", i), handlers.Options{Buffer: "1KiB"})
		forgeIdentity(t, c.Path(), 88, binary.NativeEndian.AppendUint32(nil, 1<<24))
	}
	for i := range 5 {
		r.open(fmt.Sprintf("own/x%d", i), handlers.Options{Buffer: "1KiB"})
	}
	r.runFor(3 * time.Second)
	for i := range 5 {
		for _, whose := range []string{"liar", "own"} {
			c := r.open(fmt.Sprintf("dead/%s%d", whose, i), handlers.Options{Buffer: "1KiB"})
			if whose == "liar" {
				forgeIdentity(t, c.Path(), 88, binary.NativeEndian.AppendUint32(nil, 1<<24))
			}
			c.Close()
		}
	}
	r.runFor(10 * time.Second)
	if s := r.d.Stats(); s.Finished != 10 || len(s.Rings) != 4 || s.Left != 6 {
		t.Errorf("%d finished, %d there, %d left: %v, of processes %+v", s.Finished, len(s.Rings),
			s.Left, s.LeftWhy, s.Processes)
	}
}
