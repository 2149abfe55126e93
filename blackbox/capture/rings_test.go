package capture

import (
	"fmt"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
)

// If a ring is full, the programs count what has no room. Once the capture has taken what is in the
// ring, there is room again.
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
	process := map[uint32]uint32{} // by thread
	var talker uint32
	// talk lets the process exchange messages, and returns how many of them were seen and lost.
	// Other programs of this machine may lose some, too.
	talk := func(pieces int) (seen int, lost uint64) {
		before := k.lost()
		fmt.Fprintln(in, "ping-pong", pieces)
		var ns float64
		if _, err := fmt.Fscan(out, &ns); err != nil {
			t.Fatal(err)
		}
		by := map[uint32]int{} // by process
		for more := true; more; {
			more, _, err = k.drain(batch, taker{
				named:     func(n name) { process[n.thread] = n.process },
				described: func(description) {}, happened: func(happening) {},
				seen: func(s sighting, _ int) { by[process[s.thread]]++ },
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if talker == 0 { // it has said the most
			for p := range by {
				if by[p] > by[talker] {
					talker = p
				}
			}
		}
		return by[talker], k.lost() - before
	}
	const callsOfPiece = 200
	seen, lost := talk(50)
	if lost == 0 || uint64(seen)+lost < 50*callsOfPiece {
		t.Errorf("more calls than the rings hold: %d of %d seen, %d lost", seen,
			50*callsOfPiece, lost)
	}
	if seen, lost = talk(1); seen == 0 || uint64(seen)+lost < callsOfPiece {
		t.Errorf("after that: %d of %d seen, %d lost", seen, callsOfPiece, lost)
	}
}
