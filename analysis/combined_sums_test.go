package analysis

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// checkInterval compares the interval of an aggregate with the truth. Rounding of readings changes
// a duration by at most two cycles.
func (w *truth) checkInterval(what string, got Interval, want int64) {
	w.t.Helper()
	if want < got.Lo_cycles-2 || want > got.Hi_cycles+2 {
		w.t.Errorf("%s is %v, the truth is %d", what, got, want)
	}
}

// checkSpans compares what the answer says of each span, such as counts, sums and percentiles, with
// the true durations of that span.
func (w *truth) checkSpans(a *wholeAnswer) {
	type spanName struct{ from, to, kind string }
	byName := map[spanName][]int{}
	for i := range a.rows {
		r := &a.rows[i]
		k := spanName{r.From, r.To, r.Kind}
		byName[k] = append(byName[k], i)
	}
	spans := slices.Concat(a.Spans, a.EndToEnd)
	for i := range spans {
		l := &spans[i]
		k := spanName{l.From, l.To, l.Kind}
		if l.Origin != "" {
			k.kind += ", " + l.Origin
		}
		var all []int64
		var byNodes = map[[2]string][]int64{}
		for _, i := range byName[k] {
			r, d := &a.rows[i], a.truths[i]
			all, byNodes[[2]string{r.FromNode, r.ToNode}] = append(all, d),
				append(byNodes[[2]string{r.FromNode, r.ToNode}], d)
		}
		if slices.ContainsFunc(byName[k], func(i int) bool { return a.guessed[i] }) {
			delete(byName, k)
			continue
		}
		w.checkDurations(fmt.Sprint(k), &l.All, all)
		for _, p := range l.Pairs {
			w.checkDurations(fmt.Sprint(k, p.From, p.To), &p.Durations,
				byNodes[[2]string{p.From, p.To}])
		}
		w.checkOverTime(a, l, byName[k])
		delete(byName, k)
	}
	for k, rows := range byName {
		w.t.Errorf("%d durations of %v are told one by one, and none is in the answer",
			len(rows), k)
	}
}

func (w *truth) checkDurations(what string, got *Durations, all []int64) {
	if got.Count != uint64(len(all)) {
		w.t.Errorf("%v: %d durations, %d are told one by one", what, got.Count, len(all))
	}
	if len(all) == 0 || got.Count != uint64(len(all)) {
		return
	}
	slices.Sort(all)
	sum, signs := int64(0), [3]uint64{}
	for _, d := range all {
		sum += d
		signs[1+(cmpZero(d))]++
	}
	for _, p := range got.Percentiles {
		w.checkInterval(fmt.Sprintf("p%v of %v", p.Percent, what), p.Interval,
			all[rankBig(uint64(p.Percent*1000+0.5), len(all))])
	}
	w.checkInterval(what+": the least", got.Min, all[0])
	w.checkInterval(what+": the greatest", got.Max, all[len(all)-1])
	w.checkInterval(what+": the mean", got.Mean, sum/int64(len(all)))
	if got.Before > signs[2] || got.After > signs[0] {
		w.t.Errorf("%v: %d surely before and %d surely after, the truth is %v", what, got.Before,
			got.After, signs)
	}
	for _, plot := range []struct {
		bins    []Bin
		atLeast bool // for high ends, which are at least the truth; false: low ends, at most
	}{{got.Lows, false}, {got.Highs, true}} {
		n := 0
		for _, b := range plot.bins {
			n += int(b.Count)
			if i := min(n, len(all)) - 1; plot.atLeast && b.Hi_cycles+2 < all[i] ||
				!plot.atLeast && b.Lo_cycles-2 > all[n-int(b.Count)] {
				w.t.Errorf("%v: the histogram has %d durations up to %d, the truth is %d", what, n,
					b.Hi_cycles, all[i])
			}
		}
		if n != len(all) {
			w.t.Errorf("%v: the histogram has %d durations of %d", what, n, len(all))
		}
	}
}

func cmpZero(d int64) int {
	switch {
	case d < 0:
		return -1
	case d > 0:
		return 1
	}
	return 0
}

// checkOverTime compares percentiles over time with the truth. It leaves out a bin if it is not
// certain which durations are in it.
func (w *truth) checkOverTime(a *wholeAnswer, l *Span, rows []int) {
	reference := w.job.Nodes[slices.IndexFunc(w.job.Nodes, func(n simrun.Node) bool {
		return n.Name == a.Reference.Node
	})]
	byBin, unsure := map[int][]int64{}, map[int]bool{}
	for _, i := range rows {
		found := w.matchingPairs(&a.rows[i])
		if len(found) == 0 {
			return
		}
		width := int64(a.Bins.Width_cycles)
		slack := width/20 + simrun.Hz/50_000
		var at int64
		for _, p := range found {
			at = int64(reference.Reading(p.from.Time) - uint64(a.Bins.From_cycles))
			for _, off := range []int64{-slack, 0, slack} {
				bin := int((at + off) / width)
				if len(found) > 1 || bin != int(at/width) {
					unsure[bin], unsure[int(at/width)] = true, true
				}
			}
		}
		byBin[int(at/width)] = append(byBin[int(at/width)], a.truths[i])
	}
	n := uint64(0)
	for _, b := range l.OverTime {
		n += b.Count
		all := byBin[b.Bin]
		if unsure[b.Bin] {
			continue
		}
		if slices.Sort(all); b.Count != uint64(len(all)) {
			w.t.Errorf("%s to %s: %d durations in bin %d, the truth is %d", l.From, l.To, b.Count,
				b.Bin, len(all))
			continue
		}
		w.checkInterval("p50 over time", b.P50, all[rankBig(50_000, len(all))])
		w.checkInterval("p99 over time", b.P99, all[rankBig(99_000, len(all))])
	}
	if n != l.All.Count {
		w.t.Errorf("%s to %s: %d of %d durations are in a bin", l.From, l.To, n, l.All.Count)
	}
}

// hasText reports whether some finding of the answer contains a text.
func (a *wholeAnswer) hasText(text string) bool {
	return slices.ContainsFunc(a.Findings, func(f Finding) bool {
		return strings.Contains(f.Text, text)
	})
}

// checkPoints compares what is counted at points with the truth.
func (w *truth) checkPoints(a *wholeAnswer) {
	for _, p := range a.Points {
		events, all, ended := uint64(0), uint64(0), uint64(0)
		for _, u := range w.job.Tuples {
			passed, logged, further := false, false, false
			for _, e := range u.Events {
				here := e.Point == p.Name
				passed = passed || here
				logged = logged || here && e.Logged
				further = further || w.oracle.precedes(p.Name, e.Point) && !w.asides[e.Point]
				events += uint64(number(here && e.Logged))
			}
			isParent := slices.ContainsFunc(w.job.Tuples, func(c *simrun.Tuple) bool {
				return slices.Contains(c.Parents, u)
			})
			all += uint64(number(passed))
			ended += uint64(number(logged && !further && !isParent && w.oracle.follows(p.Name)))
		}
		said := p.Lost + p.Filtered + p.InFlight + p.Perhaps
		if p.Events != events {
			w.t.Errorf("%d events at %s, the truth is %d", p.Events, p.Name, events)
		}
		if !p.Completeness.Lacks() && !w.job.Reused && !a.hasText("guessed") &&
			p.Tuples != all {
			w.t.Errorf("%d tuples passed %s, the truth is %d", p.Tuples, p.Name, all)
		}
		unseen := p.Sink || w.job.Reused && w.job.Lossy
		if ended > said && (p.Undecided == "" || !unseen) || p.Undecided == "" && ended != said {
			w.t.Errorf("%d tuples ended at %s (%d lost, %d filtered, %d in flight, %q), the truth "+
				"is %d", said, p.Name, p.Lost, p.Filtered, p.InFlight, p.Undecided, ended)
		}
	}
}

// checkSlowest compares whole paths with the truth.
func (w *truth) checkSlowest(a *wholeAnswer) {
	for _, s := range a.Slowest {
		r := &DurationRow{ID: uint64(s.ID), Tuple: 1}
		if w.job.Lossy && w.idReused(r) || w.repeatsAtPoint(r) {
			continue // its events are guessed
		}
		if !slices.ContainsFunc(w.tuples[uint64(s.ID)], func(u *simrun.Tuple) bool {
			return w.isPath(u, &s)
		}) {
			w.t.Errorf("no tuple went as this one: %+v", s)
		}
	}
}

func (w *truth) isPath(u *simrun.Tuple, s *TuplePath) bool {
	var events []*simrun.Event
	for _, p := range s.Passed {
		i := slices.IndexFunc(u.Events, func(e *simrun.Event) bool {
			n := &w.job.Nodes[e.Node]
			return e.Point == p.Point && n.Name == p.Node && n.Reading(e.Time) == uint64(p.Reading)
		})
		if i < 0 {
			return false
		}
		events = append(events, u.Events[i])
	}
	within := func(i Interval, from, to *simrun.Event) bool {
		d := w.job.Elapsed(from, to)
		return i.Lo_cycles <= d+2 && d-2 <= i.Hi_cycles
	}
	for i, p := range s.Passed {
		on := slices.Contains(w.paths[u], events[i])
		if !within(p.At, events[0], events[i]) || p.Critical == SurelyCritical.String() && !on {
			return false
		}
		for _, from := range p.After {
			latest := events[from.From]
			for _, other := range p.After {
				if e := events[other.From]; e.Time > latest.Time {
					latest = e
				}
			}
			if from.Since != nil && !within(*from.Since, events[from.From], events[i]) ||
				from.Slack != nil && !within(*from.Slack, events[from.From], latest) {
				return false
			}
		}
	}
	return true
}

// jobsTried counts what was compared with the truth.
type jobsTried struct {
	triedCounts
	jobs, failed, rows, surely, waited, origins, withheld, guessed int

	joined, joinedTwice int // jobs in which ids were joined over one operator, and over several
}

// These random jobs mix all that simrun can simulate, such as branches, windows, lost events, and
// ids that are used again. Still, every aggregate contains the truth or is withheld, and critical
// paths are the true ones.
func TestAnswersOfAnyJobAreTrue(t *testing.T) {
	seed.NotUnderRace(t, "TestAnswersEqualOracle analyses random jobs")
	told, share := jobsTried{}, seed.Share()
	for i := 0; i < 25/share || !told.enough() && i < 300; i++ {
		t.Run(fmt.Sprint(i), func(t *testing.T) { answerOfAnyJob(t, fixedJob(t, i), &told) })
	}
	if t.Logf("%+v", told); !told.triedCounts.enough() || told.rows < 10_000/share ||
		told.surely < 1000/share || told.waited < 100/share || told.origins < 10/share ||
		told.withheld == 0 || told.guessed*20 > told.rows {
		t.Errorf("%+v: too little was tried", told)
	}
}

// The same for many more jobs.
func TestBarAnswersOfAnyJob(t *testing.T) {
	jobs, told := 30, jobsTried{}
	full := proof.Begin(t) == proof.Full
	if full {
		jobs = 3000
	}
	for i := range jobs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := fixedJob(t, 1000+i)
			if full {
				rng = seed.Random(t)
			}
			answerOfAnyJob(t, rng, &told)
		})
	}
	t.Logf("%+v", told)
	proof.Check(t, proof.Bar{
		Name: fmt.Sprintf("random jobs of %d, with some answer that misses the truth", jobs),
		Unit: "jobs", Figure: float64(told.failed),
	})
}

// fixedJob returns the random source of a job. By default the jobs are always the same, but a seed
// can be set to get other jobs. Only the full proof draws new jobs. It goes on until the answers
// about 12,000 such jobs in a row are all true.
func fixedJob(t *testing.T, number int) *rand.Rand {
	if os.Getenv(seed.Variable) != "" {
		return seed.Random(t)
	}
	return rand.New(rand.NewPCG(uint64(number), 1))
}

func answerOfAnyJob(t *testing.T, rng *rand.Rand, told *jobsTried) {
	answerOfJob(t, rng, simrun.RandomJob(rng, rng.IntN(4) > 0), told)
}

func answerOfJob(t *testing.T, rng *rand.Rand, j *simrun.Job, told *jobsTried) {
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "job", j.Nodes, j.Channels); err != nil {
		t.Fatal(err)
	}
	joined := told.renamingOperators(t, j, openRun(t, parent, "job"))
	w := truthOf(t, j)
	w.setAside(joined)
	points := map[string]bool{}
	for _, c := range j.Channels {
		points[pointName(c.Name)] = points[pointName(c.Name)] || len(c.Records) > 0
	}
	o := Options{Reference: j.Nodes[0].Name}
	declared := rng.IntN(3)
	if !w.orderShown() {
		declared = 1
	}
	if declared == 1 {
		w.setAside(nil)
	}
	if declared > 0 {
		o.OnlyEdges = declared == 1
		o.Edges = slices.DeleteFunc(slices.Clone(w.edges), func(e [2]string) bool {
			return !points[e[0]] || !points[e[1]]
		})
	}
	together := analyze(t, openRun(t, parent, "job"), o)
	var rows []DurationRow
	o.Durations = func(r DurationRow) error { rows = append(rows, r); return nil }
	analyze(t, openRun(t, parent, "job"), o)
	a := &wholeAnswer{Answer: together, rows: rows}
	w.checkRows(a)
	w.checkPaths(a)
	w.checkSpans(a)
	w.checkPoints(a)
	w.checkSlowest(a)
	if declared == 1 {
		w.checkWhole(a, &told.triedCounts)
	}
	told.jobs++
	told.count(a)
	if t.Failed() {
		told.failed++
		for _, c := range j.Channels {
			if c.Handler+fmt.Sprint(c.Dropped) != "0" {
				t.Logf("%s on %s: %s, %d dropped", c.Name, j.Nodes[c.Node].Name, c.Handler,
					c.Dropped)
			}
		}
		var said []Finding
		for _, f := range together.Findings {
			if !strings.Contains(f.Text, "adds nothing") {
				said = append(said, f)
			}
		}
		t.Logf("edges %v, declared %d, missing %v, reused %v, colliding %v, findings %v", j.Edges,
			declared, j.Missing, j.Reused, j.Colliding, said)
	}
}

// orderShown reports whether the logs show the order of the job's points, as the analysis assumes:
// if one point leads to another, some tuple passes both, and all tuples pass them in this order. If
// neither leads to the other, some tuples pass them in one order and some in the other.
func (w *truth) orderShown() bool {
	if w.job.Colliding {
		return false
	}
	orders := map[[2]string]int{}
	for _, u := range w.job.Tuples {
		for _, a := range u.Events {
			for _, b := range u.Events {
				aside := w.asides[a.Point] || w.asides[b.Point]
				if a.Logged && b.Logged && !aside && b.Time > a.Time+30_000 && a.Point != b.Point {
					orders[[2]string{a.Point, b.Point}]++
				}
			}
		}
	}
	for _, e := range w.edges {
		if w.logged[e[0]] && w.logged[e[1]] && orders[e] == 0 && !w.asides[e[1]] {
			return false
		}
	}
	for k, n := range orders {
		back := orders[[2]string{k[1], k[0]}]
		if w.oracle.precedes(k[0], k[1]) {
			if back*200 > n {
				return false
			}
		} else if !w.oracle.precedes(k[1], k[0]) && min(n, back)*10 < n+back {
			return false
		}
	}
	return true
}

func (n *jobsTried) count(a *wholeAnswer) {
	n.rows += len(a.rows)
	n.guessed += len(a.guessed)
	for i := range a.rows {
		r := &a.rows[i]
		n.surely += number(r.Critical == SurelyCritical)
		n.waited += number(r.Kind == "waiting")
		n.origins += number(r.Tuple == 0)
	}
	for _, l := range slices.Concat(a.Spans, a.EndToEnd) {
		n.withheld += int(l.All.Withheld)
	}
}

// checkWhole compares what the answer says of all tuples together, in its complete spans and its
// paths, with the truth.
func (w *truth) checkWhole(a *wholeAnswer, told *triedCounts) {
	all := w.oracle.answer()
	all.completeSpans(w.t, a.Answer, told)
	for i := range a.Paths {
		of := all
		if rule := a.Paths[i].SampledBy; rule != "" {
			var x, y uint64
			fmt.Sscanf(rule, "xoy x=%d y=%d", &x, &y)
			chosen := *w.oracle
			chosen.events = slices.DeleteFunc(slices.Clone(w.oracle.events),
				func(e oracleEvent) bool { return w.job.Tuples[e.id].ID%y >= x })
			of = chosen.answer()
		}
		of.truePath(w.t, a.Answer, &a.Paths[i], told)
	}
}
