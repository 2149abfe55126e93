package analysis

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// truePause is a pause in true cycles.
type truePause struct{ begin, stopped, end uint64 }

// stoppingJob is a job whose programs are JVMs, on three nodes. Tuples pass its stages in turn. The
// truth about each tuple and each pause is known.
type stoppingJob struct {
	nodes     []simrun.Node
	jvms      [][]truePause // by process; nil: the program is no JVM
	absent    []uint64      // by process: how many of these pauses are not whole in the logs
	nodeOf    []int         // by process
	stages    []string      // channels
	processOf []int         // by stage: its process
	passed    map[uint64][]uint64
	channels  []simrun.Channel
}

func newStopping(rng *rand.Rand, tuples int) *stoppingJob {
	j := &stoppingJob{
		nodes: simrun.Nodes(rng, 3), nodeOf: []int{0, 1, 1, 2}, jvms: make([][]truePause, 4),
		stages: []string{"spout/send", "split/recv", "split/send", "count/recv", "count/end",
			"sink/recv"},
		processOf: []int{0, 1, 1, 2, 2, 3}, passed: map[uint64][]uint64{},
		absent: make([]uint64, 4),
	}
	end := simrun.Hz + uint64(tuples)*300_000
	for p := range 3 { // the last program is no JVM
		for at := uint64(simrun.Hz) + rng.Uint64N(1e6); at < end; {
			length := 1 + rng.Uint64N(1<<(10+rng.UintN(15)))
			stopped := at + rng.Uint64N(length+1)
			j.jvms[p] = append(j.jvms[p], truePause{at, stopped, at + length})
			at += length + 1000 + rng.Uint64N(20e6)
		}
	}
	for p, pauses := range j.jvms[:3] {
		c := simrun.Channel{Node: j.nodeOf[p], Process: 100 + p,
			Name: fmt.Sprintf("jvm-%d/jvm-pauses", 100+p)}
		for i, pause := range pauses {
			// The true moment is within the bound of what was logged.
			bound := rng.Uint64N(3000)
			for moment, at := range []uint64{pause.begin, pause.stopped, pause.end} {
				c.Records = append(c.Records, simrun.Record{
					Time: at + rng.Uint64N(2*bound+1)*99/100 - bound*99/100,
					ID:   uint64(i)<<32 | (bound+2)<<16 | uint64(moment)<<8 | uint64(1+i%3),
				})
			}
		}
		j.channels = append(j.channels, c)
	}
	for i, name := range j.stages {
		p := j.processOf[i]
		j.channels = append(j.channels, simrun.Channel{Node: j.nodeOf[p], Process: 100 + p,
			Name: name})
	}
	for id := range uint64(tuples) {
		at := simrun.Hz + id*300_000 + rng.Uint64N(100_000)
		for i := range j.stages {
			at += 5_000 + rng.Uint64N(1<<rng.UintN(18))
			for _, pause := range j.jvms[j.processOf[i]] { // no program logs while it stands still
				if pause.begin <= at && at < pause.end {
					at = pause.end + rng.Uint64N(100)
				}
			}
			j.passed[id] = append(j.passed[id], at)
			c := &j.channels[3+i]
			c.Records = append(c.Records, simrun.Record{Time: at, ID: id})
		}
	}
	for i := range j.channels[3:] {
		simrun.InOrder(j.channels[3+i].Records)
	}
	return j
}

// losePause removes a pause from the logs, or one of its events.
func (j *stoppingJob) losePause(process, number int, whole bool) {
	c := &j.channels[process]
	n := 0
	c.Records = slices.DeleteFunc(c.Records, func(r simrun.Record) bool {
		if r.ID>>32 == uint64(number) {
			n++
		}
		return r.ID>>32 == uint64(number) && (whole || n == 2 && r.ID>>8&0xFF == 1)
	})
	j.jvms[process][number] = truePause{}
	j.absent[process]++
}

// truePaused is how much of the time from one stage of a tuple to the next lay in pauses of a
// process, in cycles of the first node. If process is -1, it counts the pauses of the processes of
// both stages.
func (j *stoppingJob) truePaused(id uint64, stage, process int) (cycles int64) {
	from, to := j.passed[id][stage], j.passed[id][stage+1]
	last := from
	var all []truePause
	for p, pauses := range j.jvms {
		if (p == j.processOf[stage] || p == j.processOf[stage+1]) && (process < 0 || p == process) {
			all = append(all, pauses...)
		}
	}
	slices.SortFunc(all, func(a, b truePause) int { return int(int64(a.begin - b.begin)) })
	for _, p := range all {
		if begin, end := max(p.begin, last), min(p.end, to); begin < end {
			cycles += j.cycles(begin, end)
			last = end
		}
	}
	return cycles
}

func (j *stoppingJob) cycles(from, to uint64) int64 {
	return int64(j.nodes[0].Reading(to) - j.nodes[0].Reading(from))
}

func (j *stoppingJob) run(t *testing.T, rng *rand.Rand) *runs.Directory {
	t.Helper()
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "run", j.nodes, j.channels); err != nil {
		t.Fatal(err)
	}
	return openRun(t, parent, "run")
}

// comparePauses compares what an answer says of some tuples with the truth. The truth may be off a
// little, because each pause and each duration is rounded to whole cycles.
func (j *stoppingJob) comparePauses(t *testing.T, what string, got *PausedTime, ids []uint64,
	stages []int) {
	t.Helper()
	if got.Count != uint64(len(ids)) {
		t.Errorf("%s: %d durations, there are %d", what, got.Count, len(ids))
	}
	var paused, total int64
	byJVM := make([]int64, len(j.jvms))
	var touched uint64
	for _, id := range ids {
		of := int64(0)
		for _, s := range stages {
			of += j.truePaused(id, s, -1)
			for p := range byJVM {
				byJVM[p] += j.truePaused(id, s, p)
			}
			total += j.cycles(j.passed[id][s], j.passed[id][s+1])
		}
		paused += of
		touched += uint64(number(of > 0))
	}
	inside := func(what string, got Interval, truth int64) {
		t.Helper()
		if truth < got.Lo_cycles || truth > got.Hi_cycles {
			t.Errorf("%s: %d is not in %v", what, truth, got)
		}
	}
	inside(what+": time", got.Total, total)
	inside(what+": in pauses", got.Paused, paused)
	if got.Surely > touched || got.Perhaps < touched {
		t.Errorf("%s: %d to %d meet a pause, truly %d", what, got.Surely, got.Perhaps, touched)
	}
	for p, truth := range byJVM {
		i := slices.IndexFunc(got.JVMs, func(g JVMTime) bool {
			return g.JVM == fmt.Sprintf("jvm-%d", 100+p)
		})
		if i >= 0 {
			inside(what+": in "+got.JVMs[i].JVM, got.JVMs[i].Paused, truth)
		} else if truth > 0 {
			t.Errorf("%s: nothing of process %d, truly %d", what, p, truth)
		}
	}
}

// The interval of the time that lay in pauses contains the true time, for each duration, and is
// narrow.
func TestTimeInPausesHasTheTruth(t *testing.T) {
	for range max(1, 5/seed.Share()) {
		rng := seed.Random(t)
		j := newStopping(rng, 2000)
		j.losePause(0, 3, true)
		j.losePause(1, 1, false)
		j.losePause(1, 4, true)
		j.losePause(1, 5, true)
		his := map[[2]string]map[uint64]int64{}
		run := j.run(t, rng)
		rows := map[int]uint64{}
		exported := analyze(t, run, Options{Reference: "A", Pauses: func(p PauseRow) error {
			rows[p.JVM]++
			return nil
		}, Durations: func(d DurationRow) error {
			if len(rows) < 3 {
				t.Fatal("durations come before pauses")
			}
			k := [2]string{d.From, d.To}
			if his[k] == nil {
				his[k] = map[uint64]int64{}
			}
			his[k][d.ID] = d.Hi
			return nil
		}})
		ids := slices.Sorted(func(yield func(uint64) bool) {
			for id := range j.passed {
				if !yield(id) {
					return
				}
			}
		})
		a := analyze(t, run, Options{Reference: "A", Workers: 3})
		for i, jvm := range a.JVMs {
			if rows[i] != jvm.Pauses {
				t.Errorf("%d pauses of %s are exported, it has %d", rows[i], jvm.Name, jvm.Pauses)
			}
		}
		if len(exported.Spans) != len(a.Spans) || len(a.Spans) != 5 || len(a.EndToEnd) != 1 {
			t.Fatalf("%d spans and %d, %d end to end", len(exported.Spans), len(a.Spans),
				len(a.EndToEnd))
		}
		for _, l := range slices.Concat(a.Spans, a.EndToEnd) {
			if l.Pauses == nil {
				t.Fatalf("%s → %s: no pauses", l.From, l.To)
			}
			from, to := slices.Index(j.stages, l.From), slices.Index(j.stages, l.To)
			var stages []int
			for s := from; s < to; s++ {
				stages = append(stages, s)
			}
			name := l.From + " → " + l.To
			j.comparePauses(t, name, &l.Pauses.All, ids, stages)
			slow := slices.DeleteFunc(slices.Clone(ids), func(id uint64) bool {
				return his[[2]string{l.From, l.To}][id] < l.Pauses.Slowest.Least_cycles
			})
			j.comparePauses(t, name+", slowest", &l.Pauses.Slowest, slow, stages)
			if n := len(slow); n < len(ids)/slowestShare || n > len(ids)/4 {
				t.Errorf("%s: %d of %d are the slowest", name, n, len(ids))
			}
			if lo, hi := l.Pauses.Slowest.Share(); hi-lo > 0.25 {
				t.Errorf("%s: %v to %v of the slowest tuples' time is no answer", name, lo, hi)
			}
		}
		j.judgeSlowest(t, a)
		j.judgeJVMs(t, a)
	}
}

// judgeSlowest compares the paths of the slowest tuples with the truth.
func (j *stoppingJob) judgeSlowest(t *testing.T, a *Answer) {
	t.Helper()
	if len(a.Slowest) == 0 {
		t.Error("no slowest tuples")
	}
	for _, s := range a.Slowest {
		for i, p := range s.Passed[1:] {
			truth := j.truePaused(uint64(s.ID), i, -1)
			if p.Paused == nil || truth < p.Paused.Lo_cycles || truth > p.Paused.Hi_cycles {
				t.Errorf("tuple %d to %s: %d cycles in pauses are not in %v", s.ID, p.Point, truth,
					p.Paused)
			}
		}
		j.judgePath(t, &s)
	}
}

// judgePath compares the pauses of a tuple's path with the truth.
func (j *stoppingJob) judgePath(t *testing.T, s *TuplePath) {
	t.Helper()
	id, truth := uint64(s.ID), int64(0)
	for i := range s.Passed[1:] {
		truth += j.truePaused(id, i, -1)
	}
	if s.Paused == nil || truth < s.Paused.Lo_cycles || truth > s.Paused.Hi_cycles {
		t.Errorf("tuple %d: %d cycles in pauses are not in %v", id, truth, s.Paused)
	}
	first, last := j.passed[id][0], j.passed[id][len(j.stages)-1]
	contains := func(i Interval, cycles int64) bool {
		return i.Lo_cycles <= cycles && cycles <= i.Hi_cycles
	}
	for p, pauses := range j.jvms {
		for _, pause := range pauses {
			if pause.end <= first || pause.begin >= last {
				continue
			}
			if !slices.ContainsFunc(s.Pauses, func(got PathPause) bool {
				return got.JVM == fmt.Sprintf("jvm-%d", 100+p) &&
					contains(got.Begin, j.cycles(first, pause.begin)) &&
					contains(got.End, j.cycles(first, pause.end)) &&
					contains(got.Length, j.cycles(pause.begin, pause.end)) &&
					!slices.ContainsFunc(got.Events,
						func(e int) bool { return j.processOf[e] != p })
			}) {
				t.Errorf("tuple %d: no pause of process %d from %d to %d in %+v", id, p,
					j.cycles(first, pause.begin), j.cycles(first, pause.end), s.Pauses)
			}
		}
	}
}

func (j *stoppingJob) judgeJVMs(t *testing.T, a *Answer) {
	t.Helper()
	if len(a.JVMs) != 3 {
		t.Fatalf("%d JVMs", len(a.JVMs))
	}
	for p, got := range a.JVMs {
		var total, reaching int64
		n := uint64(0)
		for _, pause := range j.jvms[p] {
			if pause.end > 0 {
				n++
				total += j.cycles(pause.begin, pause.end)
				reaching += j.cycles(pause.begin, pause.stopped)
			}
		}
		if got.Name != fmt.Sprintf("jvm-%d", 100+p) || got.Process != 100+p || got.Pauses != n ||
			got.Absent != j.absent[p] || got.Node != j.nodes[j.nodeOf[p]].Name {
			t.Errorf("%s on %s, process %d: %d pauses and %d absent; truly %d and %d", got.Name,
				got.Node, got.Process, got.Pauses, got.Absent, n, j.absent[p])
		}
		if total < got.Total.Lo_cycles || total > got.Total.Hi_cycles ||
			reaching < got.Reaching.Lo_cycles || reaching > got.Reaching.Hi_cycles {
			t.Errorf("%s: %d and %d are not in %v and %v", got.Name, total, reaching, got.Total,
				got.Reaching)
		}
		var kinds uint64
		var channels []string
		for i, of := range j.processOf {
			if of == p {
				channels = append(channels, j.stages[i])
			}
		}
		slices.Sort(channels)
		if !slices.Equal(got.Channels, channels) {
			t.Errorf("%s has the channels %q, not %q", got.Name, got.Channels, channels)
		}
		for _, k := range got.Kinds {
			kinds += k.Count
			if !k.Collection || !strings.HasPrefix(k.Name, "G1") {
				t.Errorf("kind %+v", k)
			}
		}
		if kinds != n || uint64(len(got.Longest)) != min(n, maxLongest) {
			t.Errorf("%s: %d pauses by kind, %d listed; truly %d", got.Name, kinds,
				len(got.Longest), n)
		}
	}
}

// If the JVMs logged no pauses, the answer does not mention pauses. A filter of channels does not
// remove pauses.
func TestPausesAndFilters(t *testing.T) {
	rng := seed.Random(t)
	j := newStopping(rng, 300)
	chosen := Options{Filter: Filter{Channels: []string{"split/*"}}}
	if a := analyze(t, j.run(t, rng), chosen); len(a.JVMs) != 3 || len(a.Spans) != 1 ||
		a.Spans[0].Pauses == nil {
		t.Errorf("%d JVMs and %d spans", len(a.JVMs), len(a.Spans))
	}
	j.channels = j.channels[3:]
	a := analyze(t, j.run(t, rng), Options{})
	if a.JVMs != nil || a.EndToEnd[0].Pauses != nil || a.Slowest[0].Passed[1].Paused != nil {
		t.Errorf("pauses of JVMs that logged none: %+v", a.JVMs)
	}
}

// A log of pauses may contain anything. With the second seed, pauses of a JVM overlap.
func TestBadPauses(t *testing.T) {
	for _, seed := range []uint64{seed.Of(t), 10470942685195384903} {
		badPauses(t, rand.New(rand.NewPCG(seed, 0)))
	}
}

func badPauses(t *testing.T, rng *rand.Rand) {
	t.Helper()
	j := newStopping(rng, 300)
	for p := range 3 {
		c := &j.channels[p]
		for i := range c.Records {
			switch rng.IntN(4) {
			case 0:
				c.Records[i].ID = rng.Uint64()
			case 1:
				c.Records[i].Time = rng.Uint64N(5 * simrun.Hz)
			case 2:
				c.Records[i].ID |= 0xFFFF0000
			}
		}
	}
	a := analyze(t, j.run(t, rng), Options{})
	for _, l := range slices.Concat(a.Spans, a.EndToEnd) {
		for _, p := range []PausedTime{l.Pauses.All, l.Pauses.Slowest} {
			if lo, hi := p.Share(); lo < 0 || lo > hi || hi > 1 || p.Paused.Lo_cycles < 0 {
				t.Errorf("%s → %s: %v to %v of %+v", l.From, l.To, lo, hi, p)
			}
		}
	}
}

func TestPauseKindsAreThoseOfTheFormat(t *testing.T) {
	f, err := os.Open("../sdk/java/cloudprofiler-javaagent/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		cells := strings.Split(lines.Text(), " | ")
		number, err := strconv.Atoi(strings.TrimPrefix(cells[0], "| "))
		if err != nil || len(cells) != 2 || number == 0 {
			continue
		}
		n++
		if name := strings.TrimSuffix(cells[1], " |"); pauseName(uint8(number)) != name ||
			isCollection(uint8(number)) != (number <= 128) {
			t.Errorf("%d is %q here, %q in the format", number, pauseName(uint8(number)), name)
		}
	}
	if n != len(collections)+len(otherOperations) || pauseName(0) != "other" ||
		pauseName(255) != "other" || pauseName(128) != "another collection" {
		t.Errorf("%d operations in the format, %d here", n, len(collections)+len(otherOperations))
	}
}

func TestTimeInPausesInWords(t *testing.T) {
	time := func(n uint64, paused Interval, jvms ...JVMTime) PausedTime {
		return PausedTime{Count: n, Total: Interval{900, 1000}, Paused: paused, JVMs: jvms}
	}
	x := JVMTime{JVM: "jvm-7", Node: "C", Paused: Interval{300, 310}}
	s := SpanPauses{All: time(900, Interval{0, 12}), Slowest: time(9, Interval{300, 310}, x)}
	const want = "of the time of the slowest 9 tuples, 30 to 35 % lay in pauses of JVMs, most of " +
		"it in those of jvm-7 on C; of the time of all 900, at most 2 %"
	if got := s.Text(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
