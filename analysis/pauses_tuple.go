package analysis

import (
	"cmp"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// PathPause is a pause of a JVM that logged events of a tuple's path.
type PathPause struct {
	JVM        string   `json:"jvm"`
	Node       string   `json:"node"`
	Kind       string   `json:"kind"`
	Collection bool     `json:"collection"`
	Begin      Interval `json:"begin"`  // since the path's first event
	End        Interval `json:"end"`    // since the path's first event
	Length     Interval `json:"length"` // often narrower than End − Begin
	Events     []int    `json:"events"` // indices in Passed of the events that the JVM logged
}

// maxPathPauses is the largest number of pauses that a path lists.
const maxPathPauses = 100

// tellPausesOf says which pauses lay in the time of a tuple's path, and how much of it they took.
// It gets the spans of the tuple's plan, and whether each is on the critical path.
func (a *assembler) tellPausesOf(w *TuplePath, s slowTuple, spans []plannedSpan, c []Critical,
	at *[maxPoints]passage) {
	if a.in.pauses == nil {
		return
	}
	var total tscratio.Elapsed
	known, critical := true, false
	for i := range spans {
		from, to := &at[spans[i].from], &at[spans[i].to]
		d, err := a.timer.durationBetween(int(from.source), int(to.source), from.reading,
			to.reading)
		in, _, ok := a.timer.pausesBetween(from, to)
		known = known && ok && err == nil
		if c[i] == NotCritical {
			continue
		}
		critical = true
		if c[i] == SurelyCritical {
			total.Lo += in.Lo
		}
		total.Hi += max(min(in.Hi, d.Hi), in.Lo)
	}
	if known && critical {
		total.Hi = max(min(total.Hi, s.total.Hi), total.Lo)
		paused := intervalOf(total)
		w.Paused = &paused
	}
	a.pausesAround(w, s.path)
}

// pausesAround lists the longest pauses in the time of a path.
func (a *assembler) pausesAround(w *TuplePath, path []passage) {
	var placed []tscratio.Interval
	for _, e := range path {
		at, _, err := a.timer.placeEvent(int(e.source), e.reading)
		if err != nil {
			return
		}
		placed = append(placed, at)
	}
	first, begun, ended := placed[0], placed[0].Lo, placed[0].Hi
	for _, at := range placed {
		begun, ended = min(begun, at.Lo), max(ended, at.Hi)
	}
	of := a.in.pauses
	for k := range of.jvms {
		j := &of.jvms[k]
		var events []int
		for i, e := range path {
			if slices.Contains(of.jvmsOf[e.source], k) {
				events = append(events, i)
			}
		}
		if len(events) == 0 {
			continue
		}
		i, _ := slices.BinarySearch(j.ended, begun)
		for ; i < len(j.pauses) && j.begins[i] < ended; i++ {
			p := &j.pauses[i]
			if p.end.Hi <= begun || p.begin.Lo >= ended {
				continue
			}
			w.Pauses = append(w.Pauses, PathPause{
				JVM: a.in.jvmName(j), Node: a.in.nodes[a.in.sources[j.source].node].Name,
				Kind: pauseName(p.kind), Collection: isCollection(p.kind), Events: events,
				Begin:  intervalOf(elapsedBetween(first, p.begin)),
				End:    intervalOf(elapsedBetween(first, p.end)),
				Length: intervalOf(nonNegative(elapsedBetween(p.begin, p.end))),
			})
		}
	}
	slices.SortStableFunc(w.Pauses, func(x, y PathPause) int {
		return -cmp.Compare(x.Length.Hi_cycles, y.Length.Hi_cycles)
	})
	w.Pauses = slices.Clip(w.Pauses[:min(len(w.Pauses), maxPathPauses)])
	slices.SortStableFunc(w.Pauses, func(x, y PathPause) int {
		return cmp.Compare(x.Begin.Lo_cycles, y.Begin.Lo_cycles)
	})
}

// PauseRow is a pause for export.
type PauseRow struct {
	JVM        int // index in Answer.JVMs
	Kind       string
	Collection bool
	Begin, End tscratio.Interval // on the reference's counter
}

// exportPauses calls the function in the options for each pause.
func (in *input) exportPauses() error {
	if in.pauses == nil || in.options.Pauses == nil {
		return nil
	}
	for k := range in.pauses.jvms {
		for i := range in.pauses.jvms[k].pauses {
			p := &in.pauses.jvms[k].pauses[i]
			if err := in.options.Pauses(PauseRow{k, pauseName(p.kind), isCollection(p.kind),
				p.begin, p.end}); err != nil {
				return err
			}
		}
	}
	return nil
}

// channelsOf lists the channels of a JVM's program.
func (in *input) channelsOf(jvm int) []string {
	names := []string{}
	for i := range in.sources {
		if slices.Contains(in.pauses.jvmsOf[i], jvm) {
			names = append(names, in.sources[i].name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
