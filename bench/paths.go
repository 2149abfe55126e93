package bench

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
)

// PathsRow says how well one method finds the causes of calls.
type PathsRow struct {
	Method string `json:"method"`
	link.Score
	// MessageMicroseconds is the time that the method took, divided by the number of messages. A
	// call is two messages.
	MessageMicroseconds float64 `json:"message_us"`
}

// Paths lets each method link calls whose true causes are known, and judges the links.
func Paths(set *calls.Set, methods []link.Method) []PathsRow {
	var rows []PathsRow
	for _, m := range methods {
		begin := processorTime()
		links := m.Link(&set.Seen)
		spent := processorTime() - begin
		rows = append(rows, PathsRow{
			Method: m.Name(), Score: link.Judge(set, links),
			MessageMicroseconds: float64(spent.Microseconds()) / float64(2*len(set.Calls)+1),
		})
	}
	return rows
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
