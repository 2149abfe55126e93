package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// JVM is a JVM that logged its pauses: the times in which it let no thread run Java code.
type JVM struct {
	Name    string `json:"name"` // such as jvm-4711
	Node    string `json:"node"`
	Process int    `json:"process"`
	// Channels are the other channels of the process.
	Channels []string `json:"channels"`

	Pauses uint64 `json:"pauses"`
	Absent uint64 `json:"absent"` // number of further pauses that are not known in full

	// Total is the sum of all pauses. Reaching is the part of it that passed before all threads had
	// stopped.
	Total    Interval    `json:"total"`
	Reaching Interval    `json:"reaching"`
	Kinds    []PauseKind `json:"kinds"`   // the largest total first
	Longest  []Pause     `json:"longest"` // the longest pauses, at most 1,000, in the order of time
}

// PauseKind sums up the pauses for one operation of the JVM.
type PauseKind struct {
	Name       string   `json:"name"` // as the JVM calls it; "other": the name is not known
	Collection bool     `json:"collection"`
	Count      uint64   `json:"count"`
	Total      Interval `json:"total"`
	Longest    Interval `json:"longest"`
}

// Pause is one pause.
type Pause struct {
	Kind       string   `json:"kind"`
	Collection bool     `json:"collection"`
	At_cycles  Reading  `json:"at_cycles"` // the middle of its begin, on the reference's counter
	Length     Interval `json:"length"`
	Reaching   Interval `json:"reaching"` // until all threads had stopped
}

// SpanPauses says how much of a span's durations lay in pauses of the JVMs at its two ends. For a
// whole path, it sums up the spans on the critical path. It leaves out durations that are withheld,
// and durations that cannot be placed on the reference's counter. It also leaves out a duration
// that begins at an event of another tuple, from which the span's tuple was made.
type SpanPauses struct {
	All PausedTime `json:"all"`
	// Slowest describes the durations whose high ends are largest: the slowest hundredth, and also
	// durations that are at most 1/16 shorter than these.
	Slowest PausedTime `json:"slowest"`
}

// PausedTime is how much of some durations lay in pauses.
type PausedTime struct {
	Count        uint64 `json:"count"`
	Least_cycles int64  `json:"least_cycles"` // no high end of these durations is smaller
	Surely       uint64 `json:"surely"`       // how many surely contain a part of a pause
	Perhaps      uint64 `json:"perhaps"`      // how many surely or perhaps do

	Total  Interval  `json:"total"`  // the sum of the durations
	Paused Interval  `json:"paused"` // how much of it lay in pauses
	JVMs   []JVMTime `json:"jvms"`   // time in pauses of each JVM; two may pause at the same time
}

// JVMTime is how much of some durations lay in pauses of one JVM.
type JVMTime struct {
	JVM    string   `json:"jvm"`
	Node   string   `json:"node"`
	Paused Interval `json:"paused"`
}

// jvmName is the JVM's name, such as jvm-4711.
func (in *input) jvmName(j *jvm) string {
	return strings.TrimSuffix(in.sources[j.source].name, "/"+pausePoint)
}

// slowestShare means that one in this many durations counts among the slowest.
const slowestShare = 100

// pausesOfSpan sums up a span's durations, and the slowest of them. nil: no JVM logged pauses.
func (a *assembler) pausesOfSpan(l *span) *SpanPauses {
	if l.paused == nil {
		return nil
	}
	var all, slowest pausedTime
	buckets := make([]int, 0, len(l.paused))
	for b, p := range l.paused {
		buckets = append(buckets, b)
		all.merge(p)
	}
	slices.Sort(buckets)
	least := int64(0)
	for _, b := range slices.Backward(buckets) {
		if slowest.n*slowestShare >= all.n {
			break
		}
		slowest.merge(l.paused[b])
		least, _ = coarseEdges(b)
	}
	s := &SpanPauses{All: a.pausedTime(&all), Slowest: a.pausedTime(&slowest)}
	s.Slowest.Least_cycles = least
	return s
}

func (a *assembler) pausedTime(p *pausedTime) PausedTime {
	out := PausedTime{Count: p.n, Surely: p.surely, Perhaps: p.perhaps,
		Total: p.elapsed.interval(), Paused: p.paused.interval(), JVMs: []JVMTime{}}
	for i := range a.in.pauses.jvms {
		if s := p.byJVM[i]; s != nil {
			j := &a.in.pauses.jvms[i]
			out.JVMs = append(out.JVMs, JVMTime{JVM: a.in.jvmName(j),
				Node: a.in.nodes[a.in.sources[j.source].node].Name, Paused: s.interval()})
		}
	}
	slices.SortStableFunc(out.JVMs, func(a, b JVMTime) int {
		return -cmp.Compare(a.Paused.Lo_cycles, b.Paused.Lo_cycles)
	})
	return out
}

// tellPauses adds the JVMs and their pauses to an answer. It also adds findings, if there is
// something about the pauses that a reader should know.
func (a *assembler) tellPauses(out *Answer) {
	if a.in.pauses == nil {
		return
	}
	for i := range a.in.pauses.jvms {
		out.JVMs = append(out.JVMs, a.describeJVM(&a.in.pauses.jvms[i]))
		out.JVMs[i].Channels = a.in.channelsOf(i)
	}
	for _, j := range out.JVMs {
		if j.Absent > 0 {
			a.in.addFinding(FindNote,
				"%d pauses of %s on %s are not known: what is said of pauses "+
					"lacks them", j.Absent, j.Name, j.Node)
		}
	}
	for _, all := range [][]Span{out.Spans, out.EndToEnd} {
		for i := range all {
			l := &all[i]
			if l.Pauses == nil || l.Kind != "end-to-end" && l.Whole == 0 {
				continue
			}
			if text := l.Pauses.Slowest.Relevant(); text != "" {
				a.in.addFinding(FindNote, "%s → %s, the slowest %d of %d tuples: %s", l.From, l.To,
					l.Pauses.Slowest.Count, l.Pauses.All.Count, text)
			}
		}
	}
}

// describeJVM describes a JVM and its pauses.
func (a *assembler) describeJVM(j *jvm) JVM {
	s := &a.in.sources[j.source]
	out := JVM{Name: a.in.jvmName(j), Node: a.in.nodes[s.node].Name, Process: s.header.ProcessID,
		Pauses: uint64(len(j.pauses)), Absent: j.absent, Kinds: []PauseKind{}, Longest: []Pause{}}
	kinds := map[uint8]int{}
	var total, reaching sums
	for i := range j.pauses {
		p := &j.pauses[i]
		length, reach := nonNegative(elapsedBetween(p.begin, p.end)),
			nonNegative(elapsedBetween(p.begin, p.stopped))
		total.add([]tscratio.Elapsed{length})
		reaching.add([]tscratio.Elapsed{reach})
		k, known := kinds[p.kind]
		if !known {
			k = len(out.Kinds)
			kinds[p.kind] = k
			out.Kinds = append(out.Kinds, PauseKind{Name: pauseName(p.kind),
				Collection: isCollection(p.kind)})
		}
		kind := &out.Kinds[k]
		kind.Count++
		kind.Total.Lo_cycles += length.Lo
		kind.Total.Hi_cycles += length.Hi
		kind.Longest.Lo_cycles = max(kind.Longest.Lo_cycles, length.Lo)
		kind.Longest.Hi_cycles = max(kind.Longest.Hi_cycles, length.Hi)
		out.Longest = append(out.Longest, Pause{Kind: pauseName(p.kind),
			Collection: isCollection(p.kind), At_cycles: Reading(p.begin.Mid()),
			Length: intervalOf(length), Reaching: intervalOf(reach)})
	}
	out.Total, out.Reaching = total.interval(), reaching.interval()
	slices.SortStableFunc(out.Kinds, func(a, b PauseKind) int {
		return -cmp.Compare(a.Total.Hi_cycles, b.Total.Hi_cycles)
	})
	slices.SortStableFunc(out.Longest, func(a, b Pause) int {
		return -cmp.Compare(a.Length.Hi_cycles, b.Length.Hi_cycles)
	})
	out.Longest = slices.Clip(out.Longest[:min(len(out.Longest), maxLongest)])
	slices.SortStableFunc(out.Longest, func(a, b Pause) int {
		return cmp.Compare(a.At_cycles, b.At_cycles)
	})
	return out
}

// maxLongest is the largest number of pauses of a JVM that an answer lists.
const maxLongest = 1000

func nonNegative(d tscratio.Elapsed) tscratio.Elapsed {
	return tscratio.Elapsed{Lo: max(d.Lo, 0), Hi: max(d.Hi, 0)}
}

// Relevant says in words how much of the time lay in pauses, if it surely is a relevant share.
// Otherwise it returns "".
func (p *PausedTime) Relevant() string {
	const relevant = 0.1
	lo, hi := p.Share()
	if lo < relevant || len(p.JVMs) == 0 {
		return ""
	}
	text := fmt.Sprintf("%.0f to %.0f %% of their time lay in pauses of JVMs",
		math.Floor(lo*100), math.Ceil(hi*100))
	j := p.JVMs[0]
	return text + fmt.Sprintf(", most of it in those of %s on %s", j.JVM, j.Node)
}

// Text says in words how much of the time lay in pauses.
func (s *SpanPauses) Text() string {
	share := func(p *PausedTime) string {
		lo, hi := p.Share()
		if lo < 0.01 {
			return fmt.Sprintf("at most %.0f %%", math.Ceil(hi*100))
		}
		return fmt.Sprintf("%.0f to %.0f %%", math.Floor(lo*100), math.Ceil(hi*100))
	}
	text := fmt.Sprintf("of the time of the slowest %d tuples, %s lay in pauses of JVMs",
		s.Slowest.Count, share(&s.Slowest))
	if lo, _ := s.Slowest.Share(); lo >= 0.01 && len(s.Slowest.JVMs) > 0 {
		j := s.Slowest.JVMs[0]
		text += fmt.Sprintf(", most of it in those of %s on %s", j.JVM, j.Node)
	}
	return text + fmt.Sprintf("; of the time of all %d, %s", s.All.Count, share(&s.All))
}

// Share returns an interval that contains the share of the time that lay in pauses.
func (p *PausedTime) Share() (lo, hi float64) {
	if p.Total.Lo_cycles <= 0 {
		return 0, 1
	}
	return float64(p.Paused.Lo_cycles) / float64(p.Total.Hi_cycles),
		min(float64(p.Paused.Hi_cycles)/float64(p.Total.Lo_cycles), 1)
}
