package bench

import (
	"iter"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
)

// StreamRow says how well a stream linked calls, and how much memory this needed.
type StreamRow struct {
	PathsRow
	Messages int64 `json:"messages"` // a call is two messages
	Kept     int   `json:"kept"`     // the most calls that the stream kept at once
	// Memory_MB is the largest memory of this process so far, its other work included.
	Memory_MB float64 `json:"memory_mb"`
}

// StreamPaths links sets of calls while they come, and judges the links. The sets follow each other
// in time, and all have the same places (programs, see calls.Place). The argument window is the
// number of calls in a window. If it is 0, link.NewStream chooses the number.
func StreamPaths(sets iter.Seq[*calls.Set], window int) StreamRow {
	s := &streamed{}
	for set := range sets {
		if s.stream == nil {
			s.stream = link.NewStream(set.Quantum_ns, window, s.link)
			for _, p := range set.Places {
				s.stream.Place(p)
			}
		}
		s.push(set)
	}
	if s.stream == nil {
		return StreamRow{}
	}
	s.time(s.stream.Flush)
	row := StreamRow{Messages: 2 * s.pushed, Kept: s.kept}
	row.Memory_MB, _ = peakMemory() // unknown: 0
	row.Method, row.Score = "stream", s.judgement.Score()
	row.MessageMicroseconds = float64(s.spent_us) / float64(row.Messages+1)
	return row
}

type streamed struct {
	stream    *link.Stream
	judgement link.Judgement
	parts     []*streamedPart // those of which links are missing
	pushed    int64
	kept      int
	spent_us  int64
}

type streamedPart struct {
	*calls.Set
	first   int64 // number of its first call
	missing int
	links   []link.Link
}

func (s *streamed) push(set *calls.Set) {
	p := &streamedPart{Set: set, first: s.pushed, links: make([]link.Link, len(set.Calls))}
	for i := range set.Calls {
		if set.Calls[i].Caller >= 0 {
			p.missing++
		}
	}
	s.parts = append(s.parts, p)
	s.pushed += int64(len(set.Calls))
	s.time(func() {
		for i := range set.Calls {
			s.stream.Push(set.Calls[i])
			s.kept = max(s.kept, s.stream.Kept())
		}
	})
}

func (s *streamed) time(do func()) {
	begin := processorTime()
	do()
	s.spent_us += (processorTime() - begin).Microseconds()
}

// The method link notes the link of a call. When a part of the stream (one set of calls) has all
// its links, they are judged.
func (s *streamed) link(l link.Streamed) {
	k := 0
	for l.Call >= s.parts[k].first+int64(len(s.parts[k].Calls)) {
		k++
	}
	p := s.parts[k]
	p.links[l.Call-p.first] = link.Link{Cause: p.local(l.Cause), Probability: l.Probability,
		RunnerUp: p.local(l.RunnerUp), RunnerUpProbability: l.RunnerUpProbability}
	if p.missing--; p.missing == 0 {
		s.judgement.Add(p.Set, p.links)
		s.parts = append(s.parts[:k], s.parts[k+1:]...)
	}
}

// local returns the number of a call within the part. It is less than 0 if the call is in another
// part.
func (p *streamedPart) local(call int64) int32 {
	const elsewhere = -3
	switch {
	case call < 0:
		return int32(call)
	case call < p.first || call >= p.first+int64(len(p.Calls)):
		return elsewhere
	}
	return int32(call - p.first)
}
