package export

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

const (
	spanServer   = 2
	spanClient   = 3
	spanConsumer = 5
)

// PathsOTLP passes requests to a function that writes them, as OTLP does. All requests together
// have a trace for each path that the options choose. If o.Slowest is above 0, they have traces
// only for that number of the slowest paths. PathsOTLP replaces o.Each. If no messages were
// captured in the run, the answer is nil.
func PathsOTLP(dir *runs.Directory, basis analysis.Basis, o paths.Options,
	write func(request []byte) error) (Spans, *paths.Answer, error) {
	w := &pathSpans{&otlp{run: &dir.Run, write: write, clock: basis.Clock, kept: basis.Kept,
		lacks: basis.Lacks}}
	answer, err := eachPath(dir, o, []pathSink{w})
	if err != nil {
		return Spans{}, nil, fmt.Errorf("export paths of run %q: %w", dir.Run.Name, err)
	}
	if answer != nil {
		w.told.Tuples = fmt.Sprintf("%d of %d paths", shownPaths(answer, o.Slowest),
			answer.Requests)
	}
	return w.told, answer, nil
}

// pathSpans writes paths as traces, as instrumented programs would: a call is a span of its caller
// and a span of its callee. A call without a response is a message: its spans have the kinds
// producer and consumer. Both spans say how probable the link to the parent is.
type pathSpans struct{ *otlp }

func (w pathSpans) path(_ int64, p *paths.Path) error {
	if p.Began == nil {
		w.told.Lacking += uint64(len(p.Calls))
		return nil
	}
	trace := w.pathID(p)
	below := make([]string, len(p.Calls)) // the span to which the calls that a call caused belong
	for i := range p.Calls {
		c := &p.Calls[i]
		if c.Parent >= 0 {
			below[i] = below[c.Parent]
		}
		for _, h := range bothHalves(p, c) {
			s := &otlpSpan{TraceID: trace, SpanID: callID(trace, i, h.caller),
				ParentSpanID: below[i], Name: h.name, Begin_ns: max(w.clock.At_ns(h.from), 0)}
			s.End_ns = max(w.clock.At_ns(h.to), s.Begin_ns)
			switch {
			case h.caller && h.answered:
				s.Kind = spanClient
			case h.caller:
				s.Kind = spanProducer
			case h.answered:
				s.Kind = spanServer
			default:
				s.Kind = spanConsumer
			}
			if h.caller {
				s.Attributes = append(s.Attributes, otlpText("peer.service", c.To.Program))
			}
			for _, a := range aboutCall(p, c, &w.clock.Reference) {
				s.Attributes = append(s.Attributes, a.otlp())
			}
			if lo, hi, ok := w.clock.UTC(h.from); ok {
				bound := max(s.Begin_ns-lo, hi-s.Begin_ns)
				s.Attributes = append(s.Attributes, number("utc_bound_ns", bound).otlp())
			}
			below[i] = s.SpanID
			if err := w.addSpan(h.instance, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w pathSpans) end(*paths.Answer) error { return w.flush() }

// pathID names the trace of a path by its first message.
func (w pathSpans) pathID(p *paths.Path) string {
	first := "nothing"
	if m := p.Calls[0].Message; m != nil {
		first = strconv.FormatUint(m.Cookie, 10) + ":" + strconv.FormatUint(m.Lo_cycles, 10) + " " +
			m.Log.Node
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d path %s", w.run.Name, w.run.Begun.Lo_ns, first))
	return hex.EncodeToString(sum[:16])
}

func callID(trace string, call int, caller bool) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s call %d %t", trace, call, caller))
	return hex.EncodeToString(sum[:8])
}
