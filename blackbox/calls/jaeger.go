package calls

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// jaegerValue is one of three things: an answer of the query service, a trace, or a span of the
// storage.
type jaegerValue struct {
	Data      []jaegerValue            `json:"data"`
	Spans     []jaegerSpan             `json:"spans"`
	Processes map[string]jaegerProcess `json:"processes"`
	SpanID    string                   `json:"spanID"`
}

type jaegerSpan struct {
	TraceID      string            `json:"traceID"`
	SpanID       string            `json:"spanID"`
	ParentSpanID string            `json:"parentSpanID"`
	References   []jaegerReference `json:"references"`
	StartTime    float64           `json:"startTime"` // microseconds
	Duration     float64           `json:"duration"`
	Tags         []jaegerTag       `json:"tags"`
	ProcessID    string            `json:"processID"`
	Process      *jaegerProcess    `json:"process"`
}

type jaegerReference struct {
	RefType string `json:"refType"`
	TraceID string `json:"traceID"`
	SpanID  string `json:"spanID"`
}

type jaegerProcess struct {
	ServiceName string      `json:"serviceName"`
	Tags        []jaegerTag `json:"tags"`
}

type jaegerTag struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

func (b *builder) jaeger(value json.RawMessage) error {
	if value = bytes.TrimSpace(value); len(value) > 0 && value[0] == '[' {
		var all []json.RawMessage
		if err := json.Unmarshal(value, &all); err != nil {
			return err
		}
		for _, v := range all {
			if err := b.jaeger(v); err != nil {
				return err
			}
		}
		return nil
	}
	var v jaegerValue
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	if v.SpanID != "" {
		var s jaegerSpan
		if err := json.Unmarshal(value, &s); err != nil {
			return err
		}
		v.Spans = append(v.Spans, s)
	}
	return b.jaegerTraces(append(v.Data, v))
}

func (b *builder) jaegerTraces(all []jaegerValue) error {
	for _, t := range all {
		places := map[string]int32{}
		for id, p := range t.Processes {
			places[id] = b.place(p.ServiceName, tags(p.Tags).instance())
		}
		for _, s := range t.Spans {
			place, ok := places[s.ProcessID]
			if s.Process != nil {
				place = b.place(s.Process.ServiceName, tags(s.Process.Tags).instance())
			} else if !ok {
				return fmt.Errorf("span %q: process %q is not in its trace", s.SpanID, s.ProcessID)
			}
			b.add(s.span(place))
		}
	}
	return nil
}

func (s *jaegerSpan) span(place int32) *span {
	of := tags(s.Tags)
	result := &span{
		trace: s.TraceID, id: s.SpanID, parent: s.ParentSpanID, place: place,
		kind: kindOf(of["span.kind"]), peer: of.peer(),
		start_ns: int64(math.Round(s.StartTime * 1000)),
	}
	result.end_ns = result.start_ns + int64(math.Round(s.Duration*1000))
	for _, r := range s.References {
		if r.TraceID != "" && r.TraceID != s.TraceID {
			continue
		}
		if follows := r.RefType == "FOLLOWS_FROM"; !follows || result.parent == "" {
			result.parent, result.follows = r.SpanID, follows
			if !follows {
				break
			}
		}
	}
	return result
}

func tags(all []jaegerTag) attributes {
	of := attributes{}
	for _, t := range all {
		of[t.Key] = fmt.Sprint(t.Value)
	}
	return of
}

// kindOf understands the names of Jaeger and of OTLP.
func kindOf(name string) kind {
	switch name {
	case "server", "SPAN_KIND_SERVER", "2":
		return server
	case "client", "SPAN_KIND_CLIENT", "3":
		return client
	case "producer", "SPAN_KIND_PRODUCER", "4":
		return producer
	case "consumer", "SPAN_KIND_CONSUMER", "5":
		return consumer
	}
	return internal
}
