package calls

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// otlpValue is a message of OTLP, or the answer of a query service that contains one.
type otlpValue struct {
	Result        json.RawMessage   `json:"result"`
	Trace         json.RawMessage   `json:"trace"`
	Data          json.RawMessage   `json:"data"`
	ResourceSpans []json.RawMessage `json:"resourceSpans"`
	Snake         []json.RawMessage `json:"resource_spans"`
	Batches       []json.RawMessage `json:"batches"`
}

type otlpResource struct {
	Resource struct {
		Attributes []otlpAttribute `json:"attributes"`
	} `json:"resource"`
	ScopeSpans                  []otlpScope `json:"scopeSpans"`
	Snake                       []otlpScope `json:"scope_spans"`
	InstrumentationLibrarySpans []otlpScope `json:"instrumentationLibrarySpans"`
}

type otlpScope struct {
	Spans []json.RawMessage `json:"spans"`
}

type otlpSpan struct {
	TraceID      string          `json:"traceId"`
	SpanID       string          `json:"spanId"`
	ParentSpanID string          `json:"parentSpanId"`
	Kind         json.RawMessage `json:"kind"`
	Start        nanoseconds     `json:"startTimeUnixNano"`
	End          nanoseconds     `json:"endTimeUnixNano"`
	Attributes   []otlpAttribute `json:"attributes"`
	Links        []otlpLink      `json:"links"`
	// These are the same fields, with the names that the definition of the protocol buffer gives
	// them.
	TraceIDSnake string      `json:"trace_id"`
	SpanIDSnake  string      `json:"span_id"`
	ParentSnake  string      `json:"parent_span_id"`
	StartSnake   nanoseconds `json:"start_time_unix_nano"`
	EndSnake     nanoseconds `json:"end_time_unix_nano"`
}

type otlpLink struct {
	TraceID string `json:"traceId"`
	SpanID  string `json:"spanId"`
}

type otlpAttribute struct {
	Key   string         `json:"key"`
	Value map[string]any `json:"value"`
}

// nanoseconds is a time in ns since 1970. In JSON it is a number or a string.
type nanoseconds int64

func (n *nanoseconds) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		*n = nanoseconds(v)
	} else if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(f) {
		*n = nanoseconds(max(min(f, Latest_ns), -Latest_ns))
	} else if text != "null" && text != "" {
		return fmt.Errorf("time %q is not a number of nanoseconds", raw)
	}
	return nil
}

func (b *builder) otlp(value json.RawMessage) error {
	if all, is, err := elementsOf(value); is {
		for _, v := range all {
			if err := b.otlp(v); err != nil {
				return err
			}
		}
		return err
	}
	var v otlpValue
	if err := json.Unmarshal(value, &v); err != nil {
		b.countMalformed(err)
		return nil
	}
	for _, inner := range []json.RawMessage{v.Result, v.Trace, v.Data} {
		if len(inner) > 0 {
			if err := b.otlp(inner); err != nil {
				return err
			}
		}
	}
	for _, raw := range append(append(v.ResourceSpans, v.Snake...), v.Batches...) {
		var r otlpResource
		if err := json.Unmarshal(raw, &r); err != nil {
			b.countMalformed(err)
			continue
		}
		of := otlpAttributes(r.Resource.Attributes)
		place := b.placeOf(of["service.name"], of)
		for _, scope := range append(append(r.ScopeSpans, r.Snake...),
			r.InstrumentationLibrarySpans...) {
			for _, raw := range scope.Spans {
				var s otlpSpan
				if err := json.Unmarshal(raw, &s); err != nil {
					b.countMalformed(err)
					continue
				}
				b.add(s.span(place))
			}
		}
	}
	return nil
}

func (s *otlpSpan) span(place int32) *span {
	result := &span{
		trace: idOf(cmp.Or(s.TraceID, s.TraceIDSnake)), id: idOf(cmp.Or(s.SpanID, s.SpanIDSnake)),
		parent: idOf(cmp.Or(s.ParentSpanID, s.ParentSnake)), place: place,
		kind: kindOf(strings.Trim(string(s.Kind), `"`)), peer: otlpAttributes(s.Attributes).peer(),
		start_ns: int64(cmp.Or(s.Start, s.StartSnake)), end_ns: int64(cmp.Or(s.End, s.EndSnake)),
	}
	for _, l := range s.Links {
		if result.parent == "" && idOf(l.TraceID) == result.trace {
			result.parent, result.follows = idOf(l.SpanID), true
		}
	}
	return result
}

func otlpAttributes(all []otlpAttribute) attributes {
	of := attributes{}
	for _, a := range all {
		for _, v := range a.Value {
			of[a.Key] = fmt.Sprint(v)
		}
	}
	return of
}

// idOf makes an id comparable: hexadecimal, without zeros at the front. In JSON an id is in
// hexadecimal digits of either case, with or without zeros at the front, or in Base64.
func idOf(text string) string {
	if strings.HasSuffix(text, "=") {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err == nil && (len(raw) == 8 || len(raw) == 16) {
			text = hex.EncodeToString(raw)
		}
	}
	return strings.TrimLeft(strings.ToLower(text), "0")
}
