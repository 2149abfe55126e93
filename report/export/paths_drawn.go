package export

import (
	"fmt"
	"strconv"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// A half is what one of the two programs of a call did: the caller waited for the response, or the
// callee worked on the request.
type half struct {
	caller   bool
	instance trackKey // of the program
	from, to tscratio.Interval
	answered bool // the end is known; if it is not, the fields to and from are equal
	name     string
}

// bothHalves returns the two halves of a call as far as they are known.
func bothHalves(p *paths.Path, c *paths.PathCall) (all []half) {
	add := func(caller bool, e *paths.End, from, to *paths.Interval) {
		if from == nil || e.Node == "" {
			return
		}
		h := half{caller: caller, from: momentOf(p, from), name: c.To.Program,
			instance: trackKey{e.Node, fmt.Sprintf("%s#%d", e.Program, e.Process)}}
		if h.to = h.from; to != nil {
			h.to, h.answered = momentOf(p, to), true
		}
		all = append(all, h)
	}
	add(true, &c.From, c.Sent, c.Got)
	add(false, &c.To, c.Received, c.Replied)
	return all
}

// momentOf converts a moment, counted from the beginning of a path, to a reading of the reference.
func momentOf(p *paths.Path, since *paths.Interval) tscratio.Interval {
	return tscratio.Interval{Lo: p.Began.Lo + uint64(since.Lo_cycles),
		Hi: p.Began.Hi + uint64(since.Hi_cycles)}
}

// aboutCall returns what a slice or a span says about a call.
func aboutCall(p *paths.Path, c *paths.PathCall, r *analysis.Reference) []attribute {
	all := []attribute{
		fraction("link_probability", c.Probability), fraction("runner_up_probability", c.RunnerUp),
		fraction("path_probability", p.Probability), number("pattern", int64(p.Pattern+1)),
		text("verdict", verdictOf(c)),
	}
	if c.Message != nil {
		all = append(all, text("message", fmt.Sprintf("%d:%d", c.Message.Cookie,
			c.Message.Lo_cycles)))
	}
	for _, v := range []struct {
		name string
		of   *paths.Interval
	}{{"sent", c.Sent}, {"received", c.Received}, {"replied", c.Replied}, {"got", c.Got},
		{"own", c.Own}, {"network", c.Network}} {
		if v.of != nil {
			all = append(all, number(v.name+"_lo_cycles", v.of.Lo_cycles),
				number(v.name+"_hi_cycles", v.of.Hi_cycles))
		}
	}
	if c.Own != nil {
		if seconds := r.Seconds(*c.Own); seconds != "" {
			all = append(all, text("own_seconds", seconds))
		}
	}
	if c.From.Thread != 0 {
		all = append(all, text("from_thread", strconv.Itoa(int(c.From.Thread))))
	}
	if c.To.Thread != 0 {
		all = append(all, text("to_thread", strconv.Itoa(int(c.To.Thread))))
	}
	return all
}

// pathTrace writes paths in the form that Perfetto reads. Each node is a process, and each program
// has two threads there: one for the requests that it worked on, and one for the calls that it
// waited for. Flows lead from a request to the calls that it caused.
type pathTrace struct {
	*trace
	basis analysis.Basis
	run   string
	all   []numberedHalf // the first traceTuples paths
	more  int            // paths that are not shown
	lacks int            // paths without a place on the reference's counter
}

type numberedHalf struct {
	number int64
	*paths.Path
}

func (t *pathTrace) path(number int64, p *paths.Path) error {
	switch kept := *p; {
	case p.Began == nil:
		t.lacks++
	case len(t.all) == traceTuples:
		t.more++
	default:
		t.all = append(t.all, numberedHalf{number, &kept})
	}
	return nil
}

func (t *pathTrace) end(*paths.Answer) error {
	t.zero = ^uint64(0)
	for _, p := range t.all {
		for i := range p.Calls {
			for _, h := range bothHalves(p.Path, &p.Calls[i]) {
				t.zero = min(t.zero, h.from.Mid())
			}
		}
	}
	for _, p := range t.all {
		t.layCalls(p)
	}
	shows := fmt.Sprintf("%d paths", len(t.all))
	if t.more > 0 {
		shows = fmt.Sprintf("the first %d of %d paths; choose others by --slowest, --program or "+
			"--longer", len(t.all), len(t.all)+t.more)
	}
	if t.lacks > 0 {
		shows += fmt.Sprintf("; %d have no place on the counter of %s", t.lacks,
			t.basis.Reference.Node)
	}
	t.writeTracks(fmt.Sprintf(
		"run %s: %s; in cycles of %s. Which call caused which is inferred: see "+
			"link_probability", t.run, shows, t.basis.Reference.Node))
	return t.w.Flush()
}

// layCalls puts the calls of a path on tracks.
func (t *pathTrace) layCalls(p numberedHalf) {
	r := &t.basis.Reference
	at := func(i tscratio.Interval) int64 {
		since := int64(i.Mid() - t.zero)
		return r.Length_ns(analysis.Interval{Lo_cycles: since, Hi_cycles: since})
	}
	last := make([]*slice, len(p.Calls)) // the slice of each call in which its own calls begin
	for i := range p.Calls {
		c := &p.Calls[i]
		var before *slice
		if c.Parent >= 0 {
			before = last[c.Parent]
		}
		for _, h := range bothHalves(p.Path, c) {
			s := &slice{name: h.name, begin_ns: at(h.from), event: !h.answered,
				about: append([]attribute{number("path", p.number), number("call", int64(i))},
					aboutCall(p.Path, c, r)...)}
			s.length_ns = max(at(h.to)-s.begin_ns, 0)
			if h.caller {
				h.instance.name += " calls"
				s.name = "call " + s.name
			}
			t.tracks[h.instance] = append(t.tracks[h.instance], s)
			if before != nil {
				t.flows++
				before.flows, s.flows = append(before.flows, t.flows), append(s.flows, t.flows)
			}
			before, last[i] = s, s
		}
		if last[i] == nil {
			last[i] = before
		}
	}
}
