package calls

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// otlpValue is a message of OTLP, or the answer of a query service that contains one.
type otlpValue struct {
	Result        *otlpValue     `json:"result"`
	ResourceSpans []otlpResource `json:"resourceSpans"`
	Batches       []otlpResource `json:"batches"`
}

type otlpResource struct {
	Resource struct {
		Attributes []otlpAttribute `json:"attributes"`
	} `json:"resource"`
	ScopeSpans                  []otlpScope `json:"scopeSpans"`
	InstrumentationLibrarySpans []otlpScope `json:"instrumentationLibrarySpans"`
}

type otlpScope struct {
	Spans []otlpSpan `json:"spans"`
}

type otlpSpan struct {
	TraceID           string          `json:"traceId"`
	SpanID            string          `json:"spanId"`
	ParentSpanID      string          `json:"parentSpanId"`
	Kind              json.RawMessage `json:"kind"`
	StartTimeUnixNano json.RawMessage `json:"startTimeUnixNano"`
	EndTimeUnixNano   json.RawMessage `json:"endTimeUnixNano"`
	Attributes        []otlpAttribute `json:"attributes"`
	Links             []struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	} `json:"links"`
}

type otlpAttribute struct {
	Key   string         `json:"key"`
	Value map[string]any `json:"value"`
}

func (b *builder) otlp(value json.RawMessage) error {
	if value = bytes.TrimSpace(value); len(value) > 0 && value[0] == '[' {
		var all []json.RawMessage
		if err := json.Unmarshal(value, &all); err != nil {
			return err
		}
		for _, v := range all {
			if err := b.otlp(v); err != nil {
				return err
			}
		}
		return nil
	}
	var v otlpValue
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	if v.Result != nil {
		v = *v.Result
	}
	for _, r := range append(v.ResourceSpans, v.Batches...) {
		of := otlpAttributes(r.Resource.Attributes)
		place := b.place(of["service.name"], of.instance())
		for _, scope := range append(r.ScopeSpans, r.InstrumentationLibrarySpans...) {
			for i := range scope.Spans {
				s, err := scope.Spans[i].span(place)
				if err != nil {
					return err
				}
				b.add(s)
			}
		}
	}
	return nil
}

func (s *otlpSpan) span(place int32) (*span, error) {
	result := &span{
		trace: s.TraceID, id: s.SpanID, parent: s.ParentSpanID, place: place,
		kind: kindOf(unquoted(s.Kind)), peer: otlpAttributes(s.Attributes).peer(),
	}
	if strings.Trim(result.parent, "0") == "" {
		result.parent = ""
	}
	for _, l := range s.Links {
		if result.parent == "" && l.TraceID == s.TraceID {
			result.parent, result.follows = l.SpanID, true
		}
	}
	var err error
	for _, f := range []struct {
		from json.RawMessage
		to   *int64
	}{{s.StartTimeUnixNano, &result.start_ns}, {s.EndTimeUnixNano, &result.end_ns}} {
		if *f.to, err = strconv.ParseInt(unquoted(f.from), 10, 64); err != nil {
			return nil, fmt.Errorf("span %q: time %q is not a number of nanoseconds",
				s.SpanID, f.from)
		}
	}
	return result, nil
}

// unquoted returns the digits of a number. JSON may contain it as a number or as a string.
func unquoted(raw json.RawMessage) string { return strings.Trim(string(raw), `"`) }

func otlpAttributes(all []otlpAttribute) attributes {
	of := attributes{}
	for _, a := range all {
		for _, v := range a.Value {
			of[a.Key] = fmt.Sprint(v)
		}
	}
	return of
}
