package bench

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/internal/callgen"
)

// PathsRow says how well one method finds the causes of calls.
type PathsRow struct {
	Method string `json:"method"`
	link.Score
	// MessageMicroseconds is the processor time that the method took, divided by the number of
	// messages. A call is two messages.
	MessageMicroseconds float64 `json:"message_us"`
	// Changed counts the links whose most probable cause is not the same as without the shift of
	// clocks. SaidChanged counts those of them whose probability reaches link.Said, with the shift
	// or without it. If the clocks were not shifted, both are nil.
	Changed     *int `json:"changed,omitempty"`
	SaidChanged *int `json:"said_changed,omitempty"`
}

// Paths lets each method link calls whose true causes are known, and judges the links.
func Paths(set *calls.Set, methods []link.Method) (rows []PathsRow) {
	for _, m := range methods {
		row, _ := judged(set, m)
		rows = append(rows, row)
	}
	return rows
}

func judged(set *calls.Set, m link.Method) (PathsRow, []link.Link) {
	begin := processorTime()
	links := m.Link(&set.Seen)
	spent := processorTime() - begin
	return PathsRow{
		Method: m.Name(), Score: link.Judge(set, links),
		MessageMicroseconds: float64(spent.Microseconds()) / float64(2*len(set.Calls)+1),
	}, links
}

// ShiftedPaths is like Paths, but shifts the clock of each place by a random offset of no more than
// most_ns. It also compares the links with those without the shift, call by call.
func ShiftedPaths(set *calls.Set, methods []link.Method, most_ns int64,
	seed uint64) (rows []PathsRow) {
	shifted, old := callgen.WithOtherClocks(set, most_ns, seed)
	for _, m := range methods {
		row, links := judged(shifted, m)
		changed, said := changedLinks(set, m.Link(&set.Seen), links, old)
		row.Changed, row.SaidChanged = &changed, &said
		rows = append(rows, row)
	}
	return rows
}

// changedLinks compares the links of a set with those of a shifted copy. The list old has, for each
// call of the copy, its number in the set.
func changedLinks(set *calls.Set, links, shifted []link.Link, old []int32) (changed, said int) {
	for i, l := range shifted {
		before := &links[old[i]]
		if l.Cause >= 0 {
			l.Cause = old[l.Cause]
		}
		if set.Calls[old[i]].Caller < 0 || l.Cause == before.Cause {
			continue
		}
		changed++
		if max(l.Probability, before.Probability) >= link.Said {
			said++
		}
	}
	return changed, said
}

// processorTime returns the processor time of this process so far. It is 0 if the kernel does not
// tell.
func processorTime() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
