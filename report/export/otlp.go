package export

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// batch_bytes is the approximate length of a request. The collector's reader of files takes lines
// of up to 1 MiB.
const batch_bytes = 512 << 10

// mostLinks is the largest number of links that a span gets. Receivers cut longer lists.
const mostLinks = 128

// These types are the messages of opentelemetry/proto/trace/v1 and collector/trace/v1, in the JSON
// of OTLP. In this JSON, 64-bit numbers are strings, and ids are hexadecimal.
type (
	otlpRequest struct {
		ResourceSpans []*otlpResourceSpans `json:"resourceSpans"`
	}
	otlpResourceSpans struct {
		Resource struct {
			Attributes []otlpAttribute `json:"attributes"`
		} `json:"resource"`
		ScopeSpans [1]otlpScopeSpans `json:"scopeSpans"`
	}
	otlpScopeSpans struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Spans []*otlpSpan `json:"spans"`
	}
	otlpSpan struct {
		TraceID      string          `json:"traceId"`
		SpanID       string          `json:"spanId"`
		ParentSpanID string          `json:"parentSpanId,omitempty"`
		Name         string          `json:"name"`
		Kind         int             `json:"kind"`
		Begin_ns     int64           `json:"startTimeUnixNano,string"`
		End_ns       int64           `json:"endTimeUnixNano,string"`
		Attributes   []otlpAttribute `json:"attributes"`
		Links        []otlpLink      `json:"links,omitempty"`
		DroppedLinks int             `json:"droppedLinksCount,omitempty"`
	}
	otlpLink struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		String *string  `json:"stringValue,omitempty"`
		Int    string   `json:"intValue,omitempty"`
		Double *float64 `json:"doubleValue,omitempty"`
	}
)

const (
	spanInternal = 1
	spanProducer = 4
)

// Spans says what OTLP wrote.
type Spans struct {
	Spans    uint64
	Tuples   string // which tuples the spans show
	Messages string // which captured messages the spans show; "": none were captured
	// Lacking counts durations that are not among the spans, because they have no place on the
	// reference's counter.
	Lacking uint64
}

// OTLP analyses a run, and passes requests to a function that writes them. All requests together
// have a trace for each tuple, and for each captured message. Each request is one line of JSON, as
// OTLP receivers take it. If o.Slowest is above 0, only this number of the slowest tuples, and of
// the slowest messages, is written. OTLP replaces o.Events, o.Durations, o.Begin and o.Links.
func OTLP(ctx context.Context, dir *runs.Directory, o analysis.Options,
	write func(request []byte) error) (Spans, *analysis.Answer, error) {
	var failed error
	w := &otlp{run: &dir.Run, write: func(request []byte) error {
		failed = write(request)
		return failed
	}}
	w.tuples.tell = w.writeTuple
	if o.Slowest > 0 {
		w.chosen = &choice{most: o.Slowest, slowest: true}
		w.tuples.tell = w.chosen.add
	}
	if w.progress = o.Progress; w.progress == nil {
		w.progress = func(float64, string) {}
	}
	o.Slowest = -1
	o.Begin = func(b analysis.Basis) error {
		w.clock, w.kept, w.lacks = b.Clock, b.Kept, b.Lacks
		return nil
	}
	o.Links = w.tuples.link
	o.Events = func(e analysis.EventRow) error { return w.tuples.event(&e) }
	o.Durations = func(d analysis.DurationRow) error {
		if d.Tuple == 0 {
			return w.writeOrigin(&d)
		}
		return w.tuples.duration(&d)
	}
	answer, err := analysis.Run(ctx, dir, o)
	switch {
	case failed != nil:
		return Spans{}, nil, fmt.Errorf("export run %q: %w", dir.Run.Name, failed)
	case err != nil:
		return Spans{}, nil, err
	}
	if err = w.writeChosen(); err == nil {
		err = w.writeCaptured(dir, &o)
	}
	if err == nil {
		err = w.finish(answer)
	}
	if err != nil {
		return Spans{}, nil, fmt.Errorf("export run %q: %w", dir.Run.Name, err)
	}
	return w.told, answer, nil
}

// Lines writes each request as one line, as the collector's receiver of OTLP JSON files reads
// requests.
func Lines(w io.Writer) func([]byte) error {
	return func(request []byte) error {
		_, err := w.Write(append(request, '\n'))
		return err
	}
}

// otlp writes traces.
type otlp struct {
	run    *runs.Run
	clock  analysis.Clock
	kept   analysis.Kept
	lacks  string // as in analysis.Basis
	write  func([]byte) error
	tuples joiner
	chosen *choice         // nil: all tuples
	ids    map[uint64]bool // ids of the chosen tuples, once all tuples have come
	last   bool            // the last tuple has come
	told   Spans

	progress func(done float64, what string)

	before string // names the last message
	alike  int    // messages just before it with the same name

	request otlpRequest
	groups  map[trackKey]*otlpResourceSpans // the request's spans, by instance
	bytes   int                             // approximate length of the request
}

// finish says what was written, and writes the last request.
func (w *otlp) finish(a *analysis.Answer) error {
	w.told.Tuples = fmt.Sprintf("%d tuples", a.Work.Tuples)
	if w.chosen != nil {
		w.told.Tuples = w.chosen.describeChoice(a.Work.Tuples)
	}
	return w.flush()
}

// writeCaptured writes the captured messages, or the slowest of them.
func (w *otlp) writeCaptured(dir *runs.Directory, o *analysis.Options) error {
	all := transfers{slowest: w.chosen != nil}
	if all.slowest {
		all.most = w.chosen.most
	}
	found, err := eachCaptured(dir, o, w.clock.Reference.Node, func(m *messages.Timed) error {
		if all.slowest {
			return all.add(m)
		}
		if t := all.placeTransfer(m); t != nil {
			return w.writeMessage(t)
		}
		return nil
	})
	for _, t := range all.kept.sortedElements() {
		err = errors.Join(err, w.writeMessage(t))
	}
	if found != nil {
		w.told.Messages = all.keptWords()
	}
	return err
}

// writeChosen writes the chosen tuples when all tuples have come.
func (w *otlp) writeChosen() error {
	if w.last {
		return nil
	}
	w.last = true
	if err := w.tuples.endTuples(); err != nil || w.chosen == nil {
		return err
	}
	w.ids = map[uint64]bool{}
	for i, t := range w.chosen.sortedTuples() {
		w.progress(float64(i)/float64(len(w.chosen.kept.all)), "writing spans")
		w.ids[t.id] = true
		if err := w.writeTuple(t); err != nil {
			return err
		}
	}
	return nil
}

// writeTuple writes the trace of a tuple. The root is the duration from end to end. All other
// spans are the root's children, because the root contains them. A span has links to the spans that
// end where it begins: several at a join.
func (w *otlp) writeTuple(t *tuple) error {
	trace := w.traceID(t.id, t.copy)
	placed := func(d *analysis.DurationRow) bool {
		return t.eventAt(d.From) != nil &&
			t.eventAt(d.To) != nil
	}
	root := t.wholeDuration()
	if root != nil && !placed(root) {
		root = nil
	}
	for i := range t.durations {
		d := &t.durations[i]
		if !placed(d) {
			w.told.Lacking++
			continue
		}
		from, to := t.eventAt(d.From), t.eventAt(d.To)
		s := w.makeSpan(trace, t, d, from, to)
		group := instanceOf(from)
		if d != root && root != nil {
			s.ParentSpanID = spanID(trace, root)
		}
		if d.Kind == endToEnd {
			group = trackKey{}
		} else {
			if instanceOf(to) != group {
				s.Kind = spanProducer
				s.Attributes = append(s.Attributes,
					otlpText("peer.service", operatorOf(instanceOf(to))))
			}
			for k := range t.durations {
				if e := &t.durations[k]; e.To == d.From && placed(e) {
					s.Links = append(s.Links, otlpLink{trace, spanID(trace, e)})
				}
			}
		}
		if d == root || root == nil && len(s.Links) == 0 {
			whole := analysis.DurationRow{Kind: endToEnd, Whole: true}
			for _, id := range t.parents[:min(len(t.parents), mostLinks)] {
				parent := w.traceID(id, 0)
				s.Links = append(s.Links, otlpLink{parent, spanID(parent, &whole)})
			}
			s.DroppedLinks = max(len(t.parents)-mostLinks, 0)
		}
		if err := w.addSpan(group, s); err != nil {
			return err
		}
	}
	return nil
}

// writeOrigin writes a duration of a tuple that was made of others. The duration belongs to the
// trace of the made tuple, and begins where one of the others began.
func (w *otlp) writeOrigin(d *analysis.DurationRow) error {
	if err := w.writeChosen(); err != nil || w.chosen != nil && !w.ids[d.ID] {
		return err
	}
	if d.Ends[1].Hi == 0 {
		w.told.Lacking++
		return nil
	}
	trace := w.traceID(d.ID, 0)
	event := func(i int, node, point string) *analysis.EventRow {
		return &analysis.EventRow{At: d.Ends[i], Node: node, Channel: point}
	}
	return w.addSpan(trackKey{}, w.makeSpan(trace, &tuple{id: d.ID}, d,
		event(0, d.FromNode, d.From),
		event(1, d.ToNode, d.To)))
}

// makeSpan makes a span without a parent and without links.
func (w *otlp) makeSpan(trace string, t *tuple, d *analysis.DurationRow,
	from, to *analysis.EventRow) *otlpSpan {
	s := &otlpSpan{
		TraceID: trace, SpanID: spanID(trace, d), Name: d.From + " → " + d.To, Kind: spanInternal,
	}
	w.placeSpan(s, from.At, analysis.Interval{Lo_cycles: d.Lo, Hi_cycles: d.Hi})
	for _, a := range append(describeDuration(t, d, from, to, &w.clock.Reference),
		w.boundAttribute(s, from.At)...) {
		s.Attributes = append(s.Attributes, a.otlp())
	}
	return s
}

// placeSpan sets the beginning of a span to a reading of the reference, and computes its end from
// its length.
func (w *otlp) placeSpan(s *otlpSpan, at tscratio.Interval, length analysis.Interval) {
	s.Begin_ns = max(w.clock.At_ns(at), 0)
	// If the middle is negative, the order of the two events is not decided. A span has no negative
	// length.
	s.End_ns = s.Begin_ns + max(w.clock.Reference.Length_ns(length), 0)
}

// boundAttribute returns an attribute that says how sure the beginning of a span is, or none.
func (w *otlp) boundAttribute(s *otlpSpan, at tscratio.Interval) []attribute {
	lo, hi, ok := w.clock.UTC(at)
	if !ok {
		return nil
	}
	return []attribute{number("utc_bound_ns", max(s.Begin_ns-lo, hi-s.Begin_ns))}
}

// addSpan puts a span into the request, among the spans of its instance or of the run.
func (w *otlp) addSpan(of trackKey, s *otlpSpan) error {
	group := w.groups[of]
	if group == nil {
		group = w.beginGroup(of)
	}
	group.ScopeSpans[0].Spans = append(group.ScopeSpans[0].Spans, s)
	w.told.Spans++
	w.bytes += 250 + len(s.Name) + 100*len(s.Links) + bytesOf(s.Attributes)
	if w.bytes < batch_bytes {
		return nil
	}
	return w.flush()
}

// bytesOf is the approximate length of attributes.
func bytesOf(attributes []otlpAttribute) (n int) {
	for _, a := range attributes {
		n += 50 + len(a.Key) + len(a.Value.Int)
		if a.Value.String != nil {
			n += len(*a.Value.String)
		}
	}
	return n
}

// beginGroup begins a list of spans in the request: those of an instance, or those of the run.
func (w *otlp) beginGroup(of trackKey) *otlpResourceSpans {
	describe := []attribute{
		text("service.name", w.run.Name), text("cloudprofiler.run", w.run.Name),
		text("cloudprofiler.reference_node", w.clock.Reference.Node),
		text("cloudprofiler.frequency", w.clock.Reference.SecondsMean()),
		text("cloudprofiler.utc", w.clock.Means()),
		text("cloudprofiler.kept", string(w.kept)),
	}
	if w.lacks != "" {
		describe = append(describe, text("cloudprofiler.kept_why", w.lacks))
	}
	if of.node != "" {
		describe[0].text = operatorOf(of)
		describe = append(describe, text("service.namespace", w.run.Name),
			text("service.instance.id", of.name), text("host.name", of.node))
	}
	group := &otlpResourceSpans{}
	for _, a := range describe {
		group.Resource.Attributes = append(group.Resource.Attributes, otlpText(a.name, a.text))
	}
	w.bytes += bytesOf(group.Resource.Attributes)
	group.ScopeSpans[0].Scope.Name = "cloudprofiler"
	if w.groups == nil {
		w.groups = map[trackKey]*otlpResourceSpans{}
	}
	w.groups[of] = group
	w.request.ResourceSpans = append(w.request.ResourceSpans, group)
	return group
}

// flush writes the request, unless it is empty.
func (w *otlp) flush() error {
	if len(w.request.ResourceSpans) == 0 {
		return nil
	}
	text, err := json.Marshal(w.request)
	w.request, w.groups, w.bytes = otlpRequest{}, nil, 0
	if err != nil {
		return err
	}
	return w.write(text)
}

// operatorOf is the operator of an instance.
func operatorOf(k trackKey) string {
	operator, _, _ := strings.Cut(k.name, "#")
	return operator
}

func (a attribute) otlp() otlpAttribute {
	if a.isText {
		return otlpText("cloudprofiler."+a.name, a.text)
	}
	if a.isFraction {
		return otlpAttribute{"cloudprofiler." + a.name, otlpValue{Double: &a.fraction}}
	}
	return otlpAttribute{"cloudprofiler." + a.name,
		otlpValue{Int: strconv.FormatInt(a.number, 10)}}
}

func otlpText(name, text string) otlpAttribute {
	return otlpAttribute{name, otlpValue{String: &text}}
}

// traceID names the trace of a tuple, by the tuple's id and the number of earlier tuples with the
// same id. It gives the same name in every export.
func (w *otlp) traceID(id, copy uint64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %d", w.run.Name, w.run.Begun.Lo_ns, id, copy))
	return hex.EncodeToString(sum[:16])
}

// spanID names a span within its trace. The name of the root does not depend on the points of the
// root, so that a span in another trace can have a link to the root without knowing its points.
func spanID(trace string, d *analysis.DurationRow) string {
	name := trace + " " + d.Kind
	if d.Kind != endToEnd || !d.Whole {
		name += " " + d.From + " " + d.To
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}
