package server

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/library"
)

// serverObserver asks the server what "cprof nodes" asks, and compares the answer with the truth.
type serverObserver struct {
	name  string
	k     *clientProtocol
	pairs int
	out   io.Writer
	note  func(series string, at sim.Time, value float64)
	say   func(sentence string)
}

func newObserver(b *library.Builder, key string) any {
	k, _ := library.Find[*clientProtocol](b, key+".protocol",
		"is not of the class CoordinatorClient")
	return &serverObserver{name: key, k: k, out: b.Out, note: b.Noter(key), say: b.Answerer(key),
		pairs: int(b.File.Int(key+".pairs", 1, 1_000_000, 200))}
}

// serverMeasure is what an observer measures at the node of the server (home).
type serverMeasure struct {
	Known, Alive     int
	Measured         int // pairs that were measured in their present epochs
	Asked, Related   int // random pairs of honest nodes
	Outside          int // bounds that do not contain the truth
	Liars            int // nodes that lie and are alive
	Found, Innocent  int // accused nodes that lie, and that do not
	Median_ns, P99ns float64
	Joined           int
	Join, Slowest    sim.Time // the median, and the longest time
	Complaints       int
}

const pairSeed = 0x9a17

// Measure asks the server for the state of all nodes (its matrix), and for the bounds of random
// pairs.
func (o *serverObserver) Measure(w *sim.World, shard int) []byte {
	if shard != int(homeNode)/sim.ShardNodes || o.k.server.office.failed != nil {
		return nil
	}
	office := o.k.server.office
	m := office.knownPairs(w.Now())
	s := serverMeasure{Known: len(m.Nodes), Complaints: len(m.Faults)}
	var honest []coordinator.NodeStatus
	for _, n := range m.Nodes {
		number, ok := nodeOf(w, n.Name)
		lies := ok && o.k.isLiar(number)
		switch {
		case n.Accused && lies:
			s.Found++
		case n.Accused:
			s.Innocent++
		}
		if !n.Alive {
			continue
		}
		s.Alive++
		if lies {
			s.Liars++
		} else {
			honest = append(honest, n)
		}
	}
	for _, p := range m.Pairs {
		if p.From < p.Into && p.Trains > 0 && !p.Old {
			s.Measured++
		}
	}
	var bounds []float64
	random := sim.NewStream(w.Seed^pairSeed, uint64(w.Now()))
	for range o.pairs {
		if len(honest) < 2 {
			break
		}
		i, j := random.Int(len(honest)), random.Int(len(honest)-1)
		if j >= i {
			j++
		}
		s.Asked++
		from, into := honest[i], honest[j]
		a, err := m.Pair(coordinator.PairRequest{From: from.Name, Into: into.Name})
		if err != nil || a.Pair.Hi_cycles == 0 || a.Pair.Old {
			continue // nothing relates them, in their present epochs
		}
		s.Related++
		bounds = append(bounds, a.Pair.Bound_ns)
		if !o.containsTruth(w, from, into, a.Pair) {
			s.Outside++
		}
	}
	slices.Sort(bounds)
	if len(bounds) > 0 {
		s.Median_ns, s.P99ns = bounds[len(bounds)/2], bounds[len(bounds)*99/100]
	}
	if took := slices.Clone(office.joins.took); len(took) > 0 {
		slices.Sort(took)
		s.Joined, s.Join, s.Slowest = len(took), took[len(took)/2], took[len(took)-1]
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // it has only numbers
	}
	return b
}

// containsTruth reports whether the bound of a pair contains the truth.
func (o *serverObserver) containsTruth(
	w *sim.World, from, into coordinator.NodeStatus, p coordinator.PairStatus,
) bool {
	counterOf := func(n coordinator.NodeStatus) (c epochCounter, ok bool) {
		number, ok := nodeOf(w, n.Name)
		var epoch uint32
		if _, err := fmt.Sscanf(n.Epoch, "e%d", &epoch); err != nil {
			return c, false
		}
		return o.k.counter(number, epoch), ok
	}
	a, ok := counterOf(from)
	b, ok2 := counterOf(into)
	if !ok || !ok2 {
		return false
	}
	at := a.lastTimeAt(p.Reading_cycles, w.Now()+sim.Time(time.Hour))
	return p.Lo_cycles <= b.at(at+1) && p.Hi_cycles >= b.at(at)
}

// Report prints what the server knows.
func (o *serverObserver) Report(w *sim.World, shards [][]byte) (bool, error) {
	var s serverMeasure
	if len(shards) == 0 || json.Unmarshal(shards[0], &s) != nil {
		return false, fmt.Errorf("the server does not work")
	}
	if s.Related > 0 {
		o.note("median bound of random pairs, µs", w.Now(), s.Median_ns/1e3)
		o.note("bounds that miss the truth, % of the related pairs", w.Now(),
			100*float64(s.Outside)/float64(s.Related))
	}
	o.note("random pairs that are related, %", w.Now(),
		100*float64(s.Related)/max(float64(s.Asked), 1))
	if s.Liars > 0 {
		o.note("liars found, %", w.Now(), 100*float64(s.Found)/float64(s.Liars))
	}
	if s.Joined > 0 {
		o.note("median time to join, s", w.Now(), float64(s.Join)/1e9)
	}
	if s.Related > 0 {
		o.say(fmt.Sprintf("The server related %d of %d random pairs of honest nodes, half of them "+
			"within ±%.1f µs, and %d of these bounds missed the truth; it found %d of %d liars, "+
			"and accused %d honest nodes (%d nodes, at %v).", s.Related, s.Asked, s.Median_ns/1e3,
			s.Outside, s.Found, s.Liars, s.Innocent, s.Alive,
			time.Duration(w.Now()).Round(10*time.Millisecond)))
	}
	_, err := fmt.Fprintf(o.out, "%s: %v nodes=%d alive=%d measured=%d pairs=%d related=%d "+
		"outside=%d median=%.2fus 99%%=%.2fus liars=%d found=%d innocent=%d joined=%d join=%.2fs "+
		"slowest=%.2fs complaints=%d\n", o.name, w.Now(), s.Known, s.Alive, s.Measured, s.Asked,
		s.Related, s.Outside, s.Median_ns/1e3, s.P99ns/1e3, s.Liars, s.Found, s.Innocent, s.Joined,
		float64(s.Join)/1e9, float64(s.Slowest)/1e9, s.Complaints)
	return false, err
}
