package coordinator

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// matrixAge is the greatest age of a matrix that metrics are computed from. Evaluating a matrix is
// expensive, and scrapers ask often.
const matrixAge = 5 * time.Second

var (
	nodeUp = description("node_up",
		"1 while a node is registered and heard of, else 0.", "node")
	nodeRestarts = description("node_restarts_total",
		"How often another process or epoch took a node's place.", "node")
	nodeTable = description("node_table_generation",
		"The generation of the handler table that a node uses.", "node")
	tableServed = description("table_generation",
		"The generation of the handler table that is served.")
	pairBound = description("pair_bound_seconds",
		"Half the width of the interval that holds a reading's translation, in the middle of the "+
			"newest train, closed over the fleet.", "from", "into")
	pairDirect = description("pair_direct_bound_seconds",
		"The same from the pair's own trains only.", "from", "into")
	pairAge = description("pair_age_seconds",
		"How long ago the train was reported in whose middle a pair has that bound.", "from",
		"into")
	pairLeast = description("pair_least_wander_ratio",
		"The wander below which the constraints refute the assumptions.", "from", "into")
	pairSuspect = description("pair_suspect",
		"1 if a pair's bound is an estimate, because the data contradict the declared wander.",
		"from", "into")
	pairLost = description("pair_exchanges_lost_total",
		"Answers that did not come, in the trains of a pair.", "from", "into")
	unhealthy = description("unhealthy",
		"How many things are wrong; \"cprof nodes\" describes them.")
	sweepTook = description("sweep_seconds",
		"How long the last sweep took, or the present one has taken so far.")
	sweepPairs = description("sweep_pairs",
		"Pairs of that sweep, by what became of them.", "state")
	refusedTotal = description("refused_total",
		"How often something was refused, by reason.", "reason")
)

func description(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("cloudprofiler_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector. It describes no metric in advance, because collecting
// needs a running core.
func (s *Server) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *Server) Collect(to chan<- prometheus.Metric) {
	m := s.Matrix(matrixAge)
	if m == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	for _, n := range m.Nodes {
		gauge(nodeUp, flag(n.Alive), n.Name)
		counter(nodeRestarts, float64(n.Restarts), n.Name)
		gauge(nodeTable, float64(n.TableGeneration), n.Name)
	}
	gauge(tableServed, float64(m.Generation))
	for _, p := range m.Pairs {
		if p.Old || p.Trains == 0 {
			continue
		}
		gauge(pairAge, float64(p.Age_ns)/1e9, p.From, p.Into)
		counter(pairLost, float64(p.Lost), p.From, p.Into)
		if p.Hi_cycles == 0 {
			continue
		}
		gauge(pairBound, p.Bound_ns/1e9, p.From, p.Into)
		gauge(pairDirect, p.Direct_ns/1e9, p.From, p.Into)
		gauge(pairLeast, p.Least_ppb/1e9, p.From, p.Into)
		gauge(pairSuspect, flag(p.Verdict == tscratio.Suspect.String()), p.From, p.Into)
	}
	gauge(unhealthy, float64(len(m.Faults)))
	if w := m.Sweep; w != nil {
		gauge(sweepTook, float64(w.Took_ns)/1e9)
		gauge(sweepPairs, float64(w.Complete), "complete")
		gauge(sweepPairs, float64(len(w.Lost)), "lost")
		gauge(sweepPairs, float64(w.Pairs-w.Complete-len(w.Lost)), "open")
	}
	for _, reason := range control.Reasons {
		counter(refusedTotal, float64(m.Refused[reason]), string(reason))
	}
}
