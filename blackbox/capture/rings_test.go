package capture

import (
	"fmt"
	"testing"

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
