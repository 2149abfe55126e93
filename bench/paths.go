package bench

import (
	"time"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
)

// PathsRow is how well one method finds the causes of calls.
type PathsRow struct {
	Method string `json:"method"`
	link.Score
	// MessageMicroseconds is the time that the method took, divided by the number of messages. A
	// call is two messages.
	MessageMicroseconds float64 `json:"message_us"`
}

// Paths judges methods by calls of which the true causes are known.
func Paths(set *calls.Set, methods []link.Method) []PathsRow {
	var rows []PathsRow
	for _, m := range methods {
		begin := time.Now()
		links := m.Link(&set.Seen)
		spent := time.Since(begin)
		rows = append(rows, PathsRow{
			Method: m.Name(), Score: link.Judge(set, links),
			MessageMicroseconds: float64(spent.Microseconds()) / float64(2*len(set.Calls)+1),
		})
	}
	return rows
}
