package analysis

import (
	"cmp"
	"math"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// pausePoint is the last part of the names of the channels on which JVMs log their pauses. Such a
// channel does not stand for a place in the program. The file FORMAT.md of
// sdk/java/cloudprofiler-javaagent has the format.
const pausePoint = "jvm-pauses"

// maxPauseEvents is the largest number of events of pauses that are kept in memory for one log.
// Events beyond that are counted as unknown pauses.
const maxPauseEvents = 1 << 22

// The parts of the id of a pause's event.
const (
	pauseNumberShift = 32
	pauseBoundShift  = 16
	pauseMomentShift = 8
	pauseBoundMask   = 0xFFFF // mask of the bound; if all its bits are set, the bound is not known
	pauseMoments     = 3      // begin, all threads stopped, end
)

// jvm is a JVM that logged its pauses.
type jvm struct {
	source int
	pauses []pause // in the order of time
	absent uint64  // pauses of which something is not known
	// These fields let a search stop early. For each pause, ended is the latest end among this
	// pause and all earlier ones. begins is the earliest beginning among this pause and all later
	// ones. The ends of a pause are intervals, so successive pauses may overlap.
	ended, begins []uint64
}

// pause is a pause of a JVM. Its moments are intervals on the reference's counter.
type pause struct {
	kind                uint8
	begin, stopped, end tscratio.Interval
}

// pausesOf are the JVMs of a run.
type pausesOf struct {
	jvms   []jvm
	jvmsOf [][]int // by source: the JVMs of its process
}

// newPauses places the pauses of all JVMs on the reference's counter. nil: no JVM logged pauses.
func (in *input) newPauses(t *timer, told []told) *pausesOf {
	p := &pausesOf{jvmsOf: make([][]int, len(in.sources))}
	for i := range in.sources {
		if in.sources[i].trip == jvmPaused {
			p.jvms = append(p.jvms, t.placePauses(i, &told[i]))
		}
	}
	if len(p.jvms) == 0 {
		return nil
	}
	for i := range in.sources {
		s := &in.sources[i]
		for k := range p.jvms {
			j := &in.sources[p.jvms[k].source]
			if s.trip == noTrip && s.node == j.node && s.header.ProcessID == j.header.ProcessID {
				p.jvmsOf[i] = append(p.jvmsOf[i], k)
			}
		}
	}
	return p
}

// placePauses makes pauses of a log's events.
func (t *timer) placePauses(source int, of *told) jvm {
	j := jvm{source: source, absent: of.morePauses / pauseMoments}
	events, next := of.pauses, uint32(0)
	for i := 0; i < len(events); {
		number := uint32(events[i].ID >> pauseNumberShift)
		n := 1
		for i+n < len(events) && uint32(events[i+n].ID>>pauseNumberShift) == number {
			n++
		}
		if i > 0 {
			j.absent += uint64(number - next)
		}
		next = number + 1
		if p, ok := t.placePause(source, events[i:i+n]); ok {
			j.pauses = append(j.pauses, p)
		} else {
			j.absent++
		}
		i += n
	}
	slices.SortFunc(j.pauses, func(a, b pause) int {
		return cmp.Or(cmp.Compare(a.begin.Lo, b.begin.Lo), cmp.Compare(a.end.Lo, b.end.Lo))
	})
	j.dropOverlapping()
	j.ended, j.begins = make([]uint64, len(j.pauses)), make([]uint64, len(j.pauses))
	latest, earliest := uint64(0), uint64(math.MaxUint64)
	for i := range j.pauses {
		latest = max(latest, j.pauses[i].end.Hi)
		j.ended[i] = latest
	}
	for i := len(j.pauses) - 1; i >= 0; i-- {
		earliest = min(earliest, j.pauses[i].begin.Lo)
		j.begins[i] = earliest
	}
	return j
}

// dropOverlapping counts a pause as absent if it surely overlaps an earlier one. A JVM cannot be in
// two pauses at once, so one of the two is wrong.
func (j *jvm) dropOverlapping() {
	pausedUntil := uint64(0)
	kept := slices.DeleteFunc(j.pauses, func(p pause) bool {
		if p.begin.Hi < min(pausedUntil, p.end.Lo) {
			return true
		}
		pausedUntil = max(pausedUntil, p.end.Lo)
		return false
	})
	j.absent += uint64(len(j.pauses) - len(kept))
	j.pauses = kept
}

// placePause places the three moments of one pause on the reference's counter. It returns false
// unless all three are logged and can be placed, in an order that is possible.
func (t *timer) placePause(source int, events []logstore.Event) (p pause, ok bool) {
	if len(events) != pauseMoments {
		return p, false
	}
	for i, to := range []*tscratio.Interval{&p.begin, &p.stopped, &p.end} {
		e := events[i]
		bound := e.ID >> pauseBoundShift & pauseBoundMask
		lo, _, err := t.placeEvent(source, e.Counter-min(e.Counter, bound))
		hi, _, err2 := t.placeEvent(source, e.Counter+min(^e.Counter, bound))
		if err != nil || err2 != nil || bound == pauseBoundMask ||
			e.ID>>pauseMomentShift&0xFF != uint64(i) {
			return p, false
		}
		*to = tscratio.Interval{Lo: lo.Lo, Hi: hi.Hi}
	}
	p.kind = uint8(events[0].ID)
	return p, p.begin.Lo <= p.stopped.Hi && p.stopped.Lo <= p.end.Hi &&
		isDuration(elapsedBetween(p.begin, p.end))
}

// elapsedBetween is the time between two moments on one counter.
func elapsedBetween(from, to tscratio.Interval) tscratio.Elapsed {
	return tscratio.Elapsed{Lo: int64(to.Lo - from.Hi), Hi: int64(to.Hi - from.Lo)}
}

// timeInPauses is how much of the time from one moment to another lay in pauses.
func (j *jvm) timeInPauses(from, to tscratio.Interval) (of tscratio.Elapsed) {
	i, _ := slices.BinarySearch(j.ended, from.Lo)
	for ; i < len(j.pauses) && j.begins[i] < to.Hi; i++ {
		p := &j.pauses[i]
		of.Lo += overlap(max(from.Hi, p.begin.Hi), min(to.Lo, p.end.Lo))
		of.Hi += overlap(max(from.Lo, p.begin.Lo), min(to.Hi, p.end.Hi))
	}
	return of
}

func overlap(from, to uint64) int64 { return int64(to - min(from, to)) }

// pausedTime sums up durations, and how much of them lay in pauses.
type pausedTime struct {
	n, surely, perhaps uint64
	elapsed, paused    sums
	byJVM              map[int]*sums
}

func (p *pausedTime) add(d, in tscratio.Elapsed, each []jvmTime) {
	p.n++
	p.surely += uint64(number(in.Lo > 0))
	p.perhaps += uint64(number(in.Hi > 0))
	p.elapsed.add([]tscratio.Elapsed{d})
	p.paused.add([]tscratio.Elapsed{in})
	for _, e := range each {
		p.jvm(e.jvm).add([]tscratio.Elapsed{e.elapsed})
	}
}

func (p *pausedTime) jvm(i int) *sums {
	if p.byJVM == nil {
		p.byJVM = map[int]*sums{}
	}
	if p.byJVM[i] == nil {
		p.byJVM[i] = new(sums)
	}
	return p.byJVM[i]
}

func (p *pausedTime) merge(q *pausedTime) {
	p.n += q.n
	p.surely += q.surely
	p.perhaps += q.perhaps
	p.elapsed.merge(q.elapsed)
	p.paused.merge(q.paused)
	for i, s := range q.byJVM {
		p.jvm(i).merge(*s)
	}
}

// jvmTime is how much of a duration lay in pauses of one JVM.
type jvmTime struct {
	jvm     int
	elapsed tscratio.Elapsed
}

// pausedSpan groups the durations of a span by their high ends, coarsely rounded. So the slowest
// can be found when all durations are known.
type pausedSpan map[int]*pausedTime

func (l *span) addPaused(d, in tscratio.Elapsed, each []jvmTime) {
	if l.paused == nil {
		l.paused = pausedSpan{}
	}
	bucket := coarseBucket(d.Hi)
	if l.paused[bucket] == nil {
		l.paused[bucket] = new(pausedTime)
	}
	l.paused[bucket].add(d, in, each)
}

func (l *span) mergePaused(m *span) {
	for bucket, q := range m.paused {
		if l.paused == nil {
			l.paused = pausedSpan{}
		}
		if l.paused[bucket] == nil {
			l.paused[bucket] = new(pausedTime)
		}
		l.paused[bucket].merge(q)
	}
}

// pausesIn notes how much of a tuple's spans lay in pauses of the JVMs at their two ends. The
// parameter root is the span of the tuple's whole path, or nil if that is not known. Of the whole
// path, only the spans on the critical path are counted. Spans that have an end in doubt are left
// out.
func (w *gatherer) pausesIn(p *plan, path *[maxPoints]passage, in doubt, root *plannedSpan,
	all Critical) {
	var total tscratio.Elapsed
	var sums []jvmTime
	known := true
	for i := range p.spans {
		l := &p.spans[i]
		c, of := l.spanCritical(all), l.span
		if !p.allAlike() {
			c = w.judged.critical[i]
			if w.judged.waited[i] {
				c, of = NotCritical, l.waited
			}
		}
		from, to := &path[l.from], &path[l.to]
		d, err := w.timer.durationBetween(int(from.source), int(to.source), from.reading,
			to.reading)
		elapsed, each, ok := w.timer.pausesBetween(from, to)
		if err != nil || !ok || in.touchesSpan(l.from, l.to) {
			known = false
			continue
		}
		elapsed.Hi = max(min(elapsed.Hi, d.Hi), elapsed.Lo)
		of.addPaused(d.Elapsed, elapsed, each)
		if c == PerhapsCritical {
			elapsed.Lo = 0
		}
		if c == NotCritical {
			continue
		}
		total.Lo, total.Hi = total.Lo+elapsed.Lo, total.Hi+elapsed.Hi
		for _, e := range each {
			if c == PerhapsCritical {
				e.elapsed.Lo = 0
			}
			sums = addJVM(sums, e)
		}
	}
	if root == nil || !known || root.span.countedBefore {
		return
	}
	from, to := &path[root.from], &path[root.to]
	d, err := w.timer.durationBetween(int(from.source), int(to.source), from.reading, to.reading)
	if err != nil {
		return
	}
	total.Hi = max(min(total.Hi, d.Hi), total.Lo)
	root.span.addPaused(d.Elapsed, total, sums)
}

func addJVM(all []jvmTime, e jvmTime) []jvmTime {
	for i := range all {
		if all[i].jvm == e.jvm {
			all[i].elapsed.Lo += e.elapsed.Lo
			all[i].elapsed.Hi += e.elapsed.Hi
			return all
		}
	}
	return append(all, e)
}

// pausesBetween is how much of the time between two events lay in pauses of the JVMs that logged
// them. Two JVMs may pause at the same time. So the low end includes only the pauses of one JVM,
// and the high end includes the pauses of all. ok is false if an event cannot be placed.
func (t *timer) pausesBetween(from, to *passage) (all tscratio.Elapsed, each []jvmTime, ok bool) {
	of := t.in.pauses
	jvms := of.jvmsOf[from.source]
	for _, j := range of.jvmsOf[to.source] {
		if !slices.Contains(jvms, j) {
			jvms = append(slices.Clip(jvms), j)
		}
	}
	x, _, err := t.placeEvent(int(from.source), from.reading)
	y, _, err2 := t.placeEvent(int(to.source), to.reading)
	if err != nil || err2 != nil {
		return all, nil, len(jvms) == 0
	}
	for _, j := range jvms {
		e := of.jvms[j].timeInPauses(x, y)
		if e.Hi > 0 {
			each = append(each, jvmTime{j, e})
			all.Lo, all.Hi = max(all.Lo, e.Lo), all.Hi+e.Hi
		}
	}
	return all, each, true
}
