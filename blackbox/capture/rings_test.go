package capture

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
)

// If a ring is full, the programs count the messages for which there is no room. When the capture
// has emptied the ring, messages are reported again.
func TestPrivilegedFullRings(t *testing.T) {
	privileged.Need(t)
	k, err := load(0, Options{}) // the smallest rings
	if err == nil {
		err = k.attach()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	in, out, _ := startLoad(t)
	// talk lets a process exchange messages, and returns how many calls were seen and how many were
	// lost. Calls of other programs of this machine count, too.
	talk := func(pieces int) (seen, lost uint64) {
		before := k.lostMessages()
		fmt.Fprintln(in, "ping-pong", pieces)
		var ns float64
		if _, err := fmt.Fscan(out, &ns); err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			more, _, err = k.drain(batchSize, reportTaker{
				described: func(description) {}, named: func(name) {},
				happened: func(happening) {}, seen: func(sighting, int) { seen++ },
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return seen, k.lostMessages() - before
	}
	const callsOfPiece = 200
	seen, lost := talk(50)
	if lost == 0 || seen+lost < 50*callsOfPiece {
		t.Errorf("more calls than the rings hold: %d of %d seen, %d lost", seen,
			50*callsOfPiece, lost)
	}
	if seen, lost = talk(1); seen == 0 || seen+lost < callsOfPiece {
		t.Errorf("after that: %d of %d seen, %d lost", seen, callsOfPiece, lost)
	}
}

// While a capture runs, the thread that takes messages from the kernel has priority.
func TestPrivilegedPriority(t *testing.T) {
	privileged.Need(t)
	hasPriority := func() bool {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(tasks, func(task os.DirEntry) bool {
			stat, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/stat")
			_, fields, _ := strings.Cut(string(stat), ") ")
			const nice = 16 // of the fields after the name
			all := strings.Fields(fields)
			return len(all) > nice && all[nice] == fmt.Sprint(priority)
		})
	}
	r := newRig(t, Options{})
	r.capture.Flush() // its thread runs
	if !hasPriority() {
		t.Error("no thread has priority")
	}
	r.endCapture(t)
	for began := time.Now(); hasPriority(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("a thread has priority after the end of the capture")
		}
	}
}
