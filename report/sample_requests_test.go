package report

import (
	"cmp"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
)

// requestSample returns what could be inferred from the messages of capturedSample: requests of two
// patterns, of which the second has a doubtful link. The times of core-2 are estimates.
func requestSample(requests int) *paths.Answer {
	span := func(us, bound float64) paths.Interval {
		return paths.Interval{Lo_cycles: int64((us - bound) * sample_hz / 1e6),
			Hi_cycles: int64((us + bound) * sample_hz / 1e6)}
	}
	at := func(us float64) *paths.Interval {
		i := span(us, 0.6)
		return &i
	}
	type call struct {
		depth         int
		program, node string
		sure          float64
		from, to, own float64 // µs
	}
	kinds := [][]call{
		{{0, "nginx:8080", "edge", 1, 0, 2900, 310}, {1, "gateway:9000", "core-1", .998, 90, 2810,
			480}, {2, "java:7001", "core-1", .97, 300, 1400, 700},
			{3, "epoll:7003", "core-2", .96, 420, 800, 200},
			{4, "redis-server:6379", "core-1", 1, 500, 640, 44},
			{2, "10.0.9.7:5432", "", .95, 1500, 2700, 0}},
		{{0, "nginx:8080", "edge", 1, 0, 4100, 320}, {1, "gateway:9000", "core-1", .99, 80, 4000,
			500}, {2, "python3:7002", "core-2", .71, 310, 3800, 3490}},
	}
	a := &paths.Answer{Reference: "edge", Method: "learnt", Requests: requests, Chosen: requests,
		Links: 4 * requests, Said: 4*requests - requests/9, Sure: 4*requests - requests/5, Mixed: 1,
		Nodes: []messages.Node{{Node: "core-2", Lost: map[string]uint64{"buffer full": 1}}}}
	for k, kind := range kinds {
		n := float64(requests / 2)
		p := paths.Pattern{Requests: requests / 2, Probability: 0.9 - 0.2*float64(k), Slow: 12,
			Fast: 60, Slower: span(1900, 4)}
		whole := kind[0].to
		p.Whole.Total = span(whole*n, n)
		for _, q := range []float64{50, 99} {
			i := span(whole*(1+q/300), 1)
			p.Whole.Percentiles = append(p.Whole.Percentiles, paths.Percentile{Percent: q,
				Lo_cycles: i.Lo_cycles, Hi_cycles: i.Hi_cycles})
		}
		for _, c := range kind {
			of := paths.Call{Depth: c.depth, Program: c.program, Probability: c.sure,
				Suspect: c.node == "core-2", WaitedOwn: span(c.own*n, n),
				SlowerOwn: span(c.own/3, 1)}
			if c.node != "" {
				of.Nodes = []string{c.node}
				of.WaitedNetwork = span(70*n, n)
			}
			p.Calls = append(p.Calls, of)
		}
		a.Patterns = append(a.Patterns, p)
	}
	for i := range requests {
		kind := kinds[i%2]
		slow := 1 + float64(requests-i)/float64(requests)
		w := span(slow*kind[0].to, 1)
		t := paths.Path{Pattern: i % 2, Probability: 0.9, Whole: &w}
		for k, c := range kind {
			of := paths.PathCall{Depth: c.depth, Parent: k - 1, Probability: c.sure,
				Suspect:  c.node == "core-2",
				To:       paths.End{Program: c.program, Node: c.node},
				Received: at(slow * c.from), Replied: at(slow * c.to), Own: at(slow * c.own),
				Response: &messages.Call{Cookie: uint64(i + 1), Lo_cycles: uint64(1000 + k)}}
			if k > 0 {
				of.From = paths.End{Program: kind[k-1].program}
				of.Sent, of.Got = at(slow*c.from-70), at(slow*c.to+70)
				of.RunnerUp = 1 - c.sure
			}
			if c.node == "" {
				of.Received, of.Replied, of.Own, of.Response = nil, nil, nil, nil
			}
			t.Calls = append(t.Calls, of)
		}
		a.Slowest = append(a.Slowest, t)
	}
	slices.SortStableFunc(a.Slowest, func(x, y paths.Path) int {
		return -cmp.Compare(x.Whole.Hi_cycles, y.Whole.Hi_cycles)
	})
	return a
}

// If a run has many requests, its page shows only the slowest ones, and so does not become too
// long.
func TestManyRequests(t *testing.T) {
	var d Data
	a := requestSample(400)
	for range 16 { // each request has 80 calls more
		for i := range a.Slowest {
			c := a.Slowest[i].Calls
			a.Slowest[i].Calls = append(c, c[len(c)-1], c[len(c)-1], c[len(c)-1], c[len(c)-1],
				c[len(c)-1])
		}
	}
	d.AddRequests(a)
	n := 0
	for _, t := range d.Inferred.Traces {
		n += len(t.Calls)
	}
	if len(d.Inferred.Traces) < 10 || n > maxTraceCalls || d.Inferred.Chosen != 400 {
		t.Errorf("%d requests with %d calls", len(d.Inferred.Traces), n)
	}
	d = Data{}
	d.AddRequests(requestSample(400))
	for _, c := range d.Inferred.Traces[0].Calls {
		if (c.Verdict == Suspect) != (c.Node == "core-2") {
			t.Errorf("%+v", c)
		}
	}
	if d.Verdict != Suspect {
		t.Errorf("the page is %s, and has estimates", d.Verdict)
	}
	if len(d.Inferred.Traces) != MaxTraces {
		t.Errorf("%d requests", len(d.Inferred.Traces))
	}
	d.AddRequests(nil)
}
