package accuracy

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// Stamps says which stamps of a train are used.
type Stamps string

const (
	User   Stamps = "user"   // the counter around the system calls
	Kernel Stamps = "kernel" // the kernel's own stamps where it took them
)

// Bound names a method to compute a bound.
type Bound string

const (
	// Plain computes a bound for moments within a train. It uses only one exchange of the train:
	// the one with the smallest round trip. The bound is half of the time that the two packets of
	// this exchange were on the way.
	Plain Bound = "plain"

	// Intersected computes a bound for moments within a train. It uses all of the train's packets:
	// those of one direction for the interval's lower end, and those of the other direction for its
	// upper end.
	Intersected Bound = "intersected"

	// Windowed computes a bound for any moment. It uses all trains within a window around that
	// moment.
	Windowed Bound = "windowed"

	// Paper computes the bound of the paper's method for any moment. The paper draws a straight
	// line through two exchanges: the one of smallest round trip in the first ten trains, and the
	// one of smallest round trip in the last ten. The bound is half of the larger of these two
	// round trips. It takes no account of rates that wander, of counters that move in steps, or of
	// counters that differ between cores.
	Paper Bound = "paper"
)

// anchorTrains is the number of trains that the paper's method uses at either end of a session.
const anchorTrains = 10

// Series is a session's bound over time, for plots.
type Series struct {
	Setting
	Stamps Stamps
	Points []Point
}

// Point contains the windowed interval and the paper's interval at a moment. The truth is
// subtracted from their ends, so an interval is right if it contains 0.
type Point struct {
	At_s                   float64
	Lo_us, Hi_us           float64
	PaperLo_us, PaperHi_us float64
	HasPaper               bool
}

// Row is one bound under one setting. Its figures are for events on the two nodes, so they include
// the quantum and the core slack of both.
type Row struct {
	Setting
	Bound      Bound
	Stamps     Stamps
	Verdict    tscratio.Verdict
	Least      tscratio.Wander // the smallest wander that the constraints allow
	TrueWander tscratio.Wander // true wander of the nodes, in windows of the declared length

	HalfWidths_us []float64 // one for each query, in rising order
	Queries       int
	Outside       int // queries whose truth was not in the interval

	Trains, Failed int
	LoadGbit       float64 // load that arrived in a second
}

// Name returns the row's name: the bound and the stamps.
func (r Row) Name() string { return string(r.Bound) + "-" + string(r.Stamps) }

// pair combines a session's trains.
func (s *session) pair(stamps Stamps) (*tscratio.Pair, error) {
	return s.pairUpTo(stamps, 16*max(s.Wander, tscratio.PPB))
}

// pairUpTo does the same as pair, but its result can be evaluated with any declared wander up to
// the parameter most.
func (s *session) pairUpTo(stamps Stamps, most tscratio.Wander) (*tscratio.Pair, error) {
	var nodes [2]tscratio.Node
	for i, c := range s.nodes {
		nodes[i] = tscratio.Node{
			Name: c.Name, Epoch: "1", Nominal_hz: s.machine.Hz,
			Quantum_cycles:   virtual.Quantum_cycles(c.Counter, s.machine.Quantum_cycles),
			CoreSlack_cycles: s.machine.virtualSlack(),
		}
	}
	declared := tscratio.DefaultAssumptions()
	declared.Wander, declared.MaxWander = s.Wander, most
	p, err := tscratio.NewPair(nodes[0], nodes[1], declared)
	if err != nil {
		return nil, err
	}
	for _, t := range s.trains {
		if err := p.Add(train(t.Train, stamps)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func train(t minrtt.Train, stamps Stamps) tscratio.Train {
	if stamps == User {
		return tscratio.Train{By: tscratio.StartedByA, Exchanges: t.User()}
	}
	out := tscratio.Train{By: tscratio.StartedByA, Exchanges: t.Best()}
	for _, a := range t.Arrivals {
		out.OneWay = append(out.OneWay, a.Constraint(tscratio.StartedByA))
	}
	return out
}

// rows evaluates a session. For each row, it compares about as many intervals with the truth as
// queries says.
func (s *session) rows(r *rand.Rand, queries int) (rows []Row, all []Series, err error) {
	for _, stamps := range []Stamps{User, Kernel} {
		p, err := s.pair(stamps)
		if err != nil {
			return nil, nil, err
		}
		var relations [2]*tscratio.Relation
		for i, into := range []tscratio.Side{tscratio.SideA, tscratio.SideB} {
			if relations[i], err = p.Relate(into, s.Wander); err != nil {
				return nil, nil, fmt.Errorf("%s stamps: %w", stamps, err)
			}
		}
		paper, err := s.paper(stamps)
		if err != nil {
			return nil, nil, err
		}
		series, err := s.series(stamps, relations[0], paper)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, series)
		for _, b := range []Bound{Plain, Intersected, Windowed, Paper} {
			row := Row{
				Setting: s.Setting, Bound: b, Stamps: stamps,
				Verdict:    max(relations[0].Verdict, relations[1].Verdict),
				Least:      max(relations[0].Least, relations[1].Least),
				TrueWander: s.trueWander(), Trains: len(s.trains), Failed: s.failed,
				LoadGbit: s.loadBits / 1e9,
			}
			var ask randomQuery
			switch b {
			case Windowed:
				ask = s.anywhere(relations)
			case Paper:
				ask = s.byPaper(paper)
			default:
				ask = s.atTrain(b, stamps, p, relations[0])
			}
			for range queries {
				got, truth, err := ask(r)
				if err != nil {
					return nil, nil, err
				}
				row.Queries++
				if !got.Contains(truth) {
					row.Outside++
				}
				row.HalfWidths_us = append(row.HalfWidths_us,
					s.machine.Micros(float64(got.Width())/2))
			}
			rows = append(rows, row)
		}
	}
	return rows, all, nil
}

// paper relates the two nodes of a session by the paper's method.
func (s *session) paper(stamps Stamps) (tscratio.PaperRelation, error) {
	n := min(anchorTrains, len(s.trains)/3)
	best := func(trains []timedTrain) (es []tscratio.Exchange) {
		for _, t := range trains {
			es = append(es, train(t.Train, stamps).Exchanges...)
		}
		return es
	}
	return tscratio.PaperRelate(best(s.trains[:n]), best(s.trains[len(s.trains)-n:]))
}

// byPaper returns a query of the paper's relation, which translates from B to A. The query is for
// moments after the session's first ten trains and before its last ten, because the paper's line
// goes through one exchange of the first ten trains and one of the last ten.
func (s *session) byPaper(p tscratio.PaperRelation) randomQuery {
	n := min(anchorTrains, len(s.trains)/3)
	first, last := s.trains[n-1].after, s.trains[len(s.trains)-n].before
	return func(r *rand.Rand) (tscratio.Interval, uint64, error) {
		moment := s.machine.reading(first + r.Uint64N(last-first))
		got, err := p.Translate(s.truths[1].Reading(moment))
		return got, s.truths[0].Reading(moment), err
	}
}

// series returns the bound over time.
func (s *session) series(stamps Stamps, into *tscratio.Relation,
	paper tscratio.PaperRelation) (Series, error) {
	const points = 2000
	first, last := s.trains[0].after, s.trains[len(s.trains)-1].before
	out := Series{Setting: s.Setting, Stamps: stamps}
	for i := range uint64(points) {
		moment := max(first, s.machine.reading(first+(last-first)/points*i))
		y, truth := s.truths[1].Reading(moment), s.truths[0].Reading(moment)
		got, err := into.Translate(y)
		if err != nil {
			return out, err
		}
		from := func(x uint64) float64 { return s.machine.Micros(float64(int64(x - truth))) }
		p := Point{
			At_s:  float64(moment-first) / float64(s.machine.Hz),
			Lo_us: from(got.Lo), Hi_us: from(got.Hi),
		}
		if theirs, err := paper.Translate(y); err == nil {
			p.HasPaper, p.PaperLo_us, p.PaperHi_us = true, from(theirs.Lo), from(theirs.Hi)
		}
		out.Points = append(out.Points, p)
	}
	return out, nil
}

// randomQuery computes the interval for a random moment, and returns the interval and the truth.
type randomQuery func(r *rand.Rand) (got tscratio.Interval, truth uint64, err error)

// anywhere returns a query of a session's relations. The query is for moments between the session's
// first and its last train.
func (s *session) anywhere(into [2]*tscratio.Relation) randomQuery {
	first, last := s.trains[0].after, s.trains[len(s.trains)-1].before
	return func(r *rand.Rand) (tscratio.Interval, uint64, error) {
		moment := s.machine.reading(first + r.Uint64N(last-first))
		to := r.IntN(2)
		got, err := into[to].Translate(s.truths[1-to].Reading(moment))
		return got, s.truths[to].Reading(moment), err
	}
}

// mostDeclared is the limit for the wanders with which session.declared evaluates a session.
const mostDeclared = 16 * tscratio.PPM

// The method declared evaluates a session several times: with the session's declared wander, with
// twice that wander, with four times, and so on.
func (s *session) declared(r *rand.Rand) (all []Declared, err error) {
	const queries = 1000
	for _, stamps := range []Stamps{User, Kernel} {
		p, err := s.pairUpTo(stamps, mostDeclared)
		if err != nil {
			return nil, err
		}
		d := Declared{Setting: s.Setting, Stamps: stamps}
		for w := s.Wander; w <= mostDeclared; w *= 2 {
			var into [2]*tscratio.Relation
			for i, side := range []tscratio.Side{tscratio.SideA, tscratio.SideB} {
				if into[i], err = p.Relate(side, w); err != nil {
					return nil, fmt.Errorf("%s stamps: %w", stamps, err)
				}
			}
			ask := s.anywhere(into)
			var halves []float64
			for range queries {
				got, truth, err := ask(r)
				if err != nil {
					return nil, err
				}
				if !got.Contains(truth) {
					return nil, fmt.Errorf("%s stamps, w = %v: "+
						"truth %d is not in %v: this is a defect", stamps, w, truth, got)
				}
				halves = append(halves, s.machine.Micros(float64(got.Width())/2))
			}
			d.Wanders, d.HalfWidth_us = append(d.Wanders, w), append(d.HalfWidth_us, Median(halves))
		}
		all = append(all, d)
	}
	return all, nil
}

// reading returns what the machine's counter shows after count cycles. The counter moves in steps,
// so the reading may be less than count.
func (m Machine) reading(count uint64) uint64 { return count - count%m.Quantum_cycles }

// atTrain returns a query for a moment within a train. The query uses only what this train proves
// by itself, and the rate of the windowed relation. The rate may come from that relation, because
// within a train an error of the rate moves readings by less than a cycle.
func (s *session) atTrain(b Bound, stamps Stamps, p *tscratio.Pair,
	rates *tscratio.Relation) randomQuery {
	return func(r *rand.Rand) (tscratio.Interval, uint64, error) {
		t := s.trains[r.IntN(len(s.trains))]
		moment := s.machine.reading(t.before + r.Uint64N(t.after-t.before))
		y := s.truths[1].Reading(moment)
		rate, err := rates.Rate(y)
		if err != nil {
			return tscratio.Interval{}, 0, err
		}
		v := constraintView{y: y, rate: rate, a: p.A, b: p.B}
		es := train(t.Train, stamps).Exchanges
		got := tscratio.Interval{}
		for i, e := range es {
			lower, upper := e.Constraints(tscratio.StartedByA)
			one := tscratio.Interval{Lo: v.lower(lower), Hi: v.upper(upper)}
			switch {
			case i == 0, b == Plain && one.Width() < got.Width():
				got = one
			case b == Intersected:
				got = got.Intersect(one)
			}
		}
		return got, s.truths[0].Reading(moment), nil
	}
}

// constraintView computes what constraints say about A's counter at the moment at which B's counter
// shows y. The exchanges of these constraints are near that moment.
type constraintView struct {
	y    uint64
	rate tscratio.RateInterval
	a, b tscratio.Node
}

// lower returns the smallest reading of A that a constraint allows when B shows y. The method upper
// returns the largest.
func (v constraintView) lower(c tscratio.Constraint) uint64 {
	at := c.B + v.b.Quantum_cycles + v.b.CoreSlack_cycles
	return c.A - v.a.CoreSlack_cycles - v.a.Quantum_cycles +
		uint64(int64(math.Floor(v.least(int64(v.y-at)))))
}

func (v constraintView) upper(c tscratio.Constraint) uint64 {
	at := c.B - v.b.CoreSlack_cycles
	return c.A + v.a.CoreSlack_cycles + v.a.Quantum_cycles +
		uint64(int64(math.Ceil(-v.least(-int64(v.y+v.b.Quantum_cycles-at)))))
}

// least returns the smallest product of d and any rate within the limits of v.rate. d is a distance
// within a train, so it is below 2⁴⁰ cycles.
func (v constraintView) least(d int64) float64 {
	return min(float64(d)*v.rate.Lo.Float(), float64(d)*v.rate.Hi.Float())
}

// virtualSlack returns by how much readings of a virtual counter on two cores may differ, in cycles
// of that counter. It is the machine's own core slack plus 1 ‰ plus one cycle. The 1 ‰ is enough
// because no virtual counter is faster than the machine's by more than 1 ‰. The cycle is for
// rounding.
func (m Machine) virtualSlack() uint64 { return m.Slack_cycles + m.Slack_cycles/1000 + 1 }

// trueWander returns the true wander of the nodes, rounded up.
func (s *session) trueWander() tscratio.Wander {
	// The relation's window is ±10 s by the counter of a node, which may differ from the machine's
	// counter by 100 ppm.
	w := vnode.PairWander_2e40(s.truths[0], s.truths[1], 20*s.machine.Hz/10_000*10_001)
	return tscratio.Wander(math.Ceil(float64(w) / (1 << 40) * 1e12))
}
