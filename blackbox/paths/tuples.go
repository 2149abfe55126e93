package paths

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// An entry is an event of a tuple that a program logged.
type entry struct {
	place int32  // where the program runs
	id    uint64 // of the tuple
	at    int64  // as in calls.Call
}

// pausePoint names the channels on which JVMs log their pauses. Their ids are not those of tuples.
const pausePoint = "jvm-pauses"

// readEntries reads what captured programs logged themselves. The result is sorted by place and
// moment. A log and a captured message both name their process by node and number. If a program is
// in another PID namespace, the two numbers differ. Its log is then left out, or is mistaken for
// the log of another program. In the second case, pin.go finds no carriers.
func readEntries(dir *runs.Directory, seen *Seen, s *scale) (all []entry, err error) {
	logs, _ := dir.Logs() // package analysis reports what is missing
	for _, node := range logs {
		for rest := node.Segments; len(rest) > 0; {
			ring := logstore.SegmentsOf(rest, rest[0].Channel, rest[0].Incarnation)
			rest = rest[len(ring):]
			if name := ring[0].Channel; name.String() == blackbox.Channel ||
				name.Point == pausePoint {
				continue
			}
			err := eachEvent(ring, func(h *logstore.Header, e logstore.Event) bool {
				place := seen.place(node.Node, uint32(h.ProcessID))
				log := s.log(node.Node, h.Epoch)
				if place < 0 || log == nil {
					return false
				}
				all = append(all, entry{place, e.ID, s.readingAt(log, e.Counter)})
				return true
			})
			if err != nil {
				return nil, fmt.Errorf("read tuples of %q: %w", node.Node, err)
			}
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.at, b.at),
			cmp.Compare(a.id, b.id))
	})
	return all, nil
}

// eachEvent calls the function do for each event of a ring, until do returns false.
func eachEvent(ring []logstore.Segment, do func(*logstore.Header, logstore.Event) bool) error {
	r := logstore.ReadLog(ring)
	defer r.Close()
	for {
		b, err := r.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		h := r.Header()
		for _, e := range b.Events {
			if !do(&h, e) {
				return nil
			}
		}
	}
}

// place returns the place of a process. It returns -1 if the process was not captured, or if its
// number is ambiguous.
func (s *Seen) place(node string, number uint32) int32 {
	found := int32(-1)
	for p, place := range s.processes {
		if p.node == node && p.number == number {
			if found >= 0 {
				return -1
			}
			found = place
		}
	}
	return found
}

// log returns a capture whose stamps are readings of a node's counter in an epoch, or nil.
func (s *scale) log(node, epoch string) *messages.Log {
	for l := range s.nodes {
		if l.Node == node && l.Epoch == epoch {
			return l
		}
	}
	return nil
}
