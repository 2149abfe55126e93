package analysis

import "github.com/cloudprofiler/cloudprofiler/logstore"

// maxSamples is the largest number of samples of a counter that are kept. If there are more, only
// every second sample is kept, then only every fourth, and so on. A sample is the count since the
// beginning. So if a sample is left out, no count is lost, but only the time at which the count was
// reached.
const maxSamples = 1 << 14

// samples has what a counting channel logged: its count at several moments.
type samples struct {
	rows      []logstore.Sample // rising
	every     uint64            // one sample out of this number is kept; 0 means 1
	seen      uint64
	last      logstore.Sample
	backwards uint64 // samples with a smaller count or an earlier time than the previous sample
}

func (s *samples) add(rows []logstore.Sample) {
	for _, r := range rows {
		if s.seen > 0 && (r.Count < s.last.Count || r.Counter < s.last.Counter) {
			s.backwards++
			continue
		}
		if s.last = r; s.seen%max(s.every, 1) == 0 {
			s.rows = append(s.rows, r)
		}
		s.seen++
		if len(s.rows) > maxSamples {
			s.thinOut()
		}
	}
}

// thinOut keeps every second sample.
func (s *samples) thinOut() {
	kept := s.rows[:0]
	for i := 0; i < len(s.rows); i += 2 {
		kept = append(kept, s.rows[i])
	}
	s.rows, s.every = kept, 2*max(s.every, 1)
}

// keptSamples returns the samples that were kept and the last sample, which may not be among them.
func (s *samples) keptSamples() []logstore.Sample {
	if n := len(s.rows); n > 0 && s.rows[n-1] != s.last {
		return append(s.rows[:n:n], s.last)
	}
	return s.rows
}
