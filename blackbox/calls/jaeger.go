package calls

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// jaegerValue is one of these: an answer of the query service, a trace, a span of the storage, or a
// document of Elasticsearch that contains a span.
type jaegerValue struct {
	Data      json.RawMessage          `json:"data"`
	Traces    json.RawMessage          `json:"traces"`
	Hits      json.RawMessage          `json:"hits"`
	Source    json.RawMessage          `json:"_source"`
	Spans     []json.RawMessage        `json:"spans"`
	Processes map[string]jaegerProcess `json:"processes"`
	SpanID    string                   `json:"spanID"`
}

type jaegerSpan struct {
	TraceID      string            `json:"traceID"`
	SpanID       string            `json:"spanID"`
	ParentSpanID string            `json:"parentSpanID"`
	References   []jaegerReference `json:"references"`
	StartTime    microseconds      `json:"startTime"`
	Duration     microseconds      `json:"duration"`
	Tags         json.RawMessage   `json:"tags"`
	TagMap       map[string]any    `json:"tag"` // Elasticsearch has dots in names replaced by @
	ProcessID    string            `json:"processID"`
	Process      *jaegerProcess    `json:"process"`
}

type jaegerReference struct {
	RefType string `json:"refType"`
	TraceID string `json:"traceID"`
	SpanID  string `json:"spanID"`
}

type jaegerProcess struct {
	ServiceName string          `json:"serviceName"`
	Tags        json.RawMessage `json:"tags"`
}

type jaegerTag struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// microseconds is a time or a duration. Its value is in ns. But in JSON it is a number of
// microseconds, or a string with such a number, or a text such as 2024-05-01T10:00:00Z or 0.25s.
type microseconds int64

func (m *microseconds) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	const most = Latest_ns / 1000
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		*m = microseconds(1000 * max(min(n, most), -most))
	} else if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(f) {
		*m = microseconds(math.Round(1000 * max(min(f, most), -most)))
	} else if d, err := time.ParseDuration(text); err == nil {
		*m = microseconds(d)
	} else if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		*m = microseconds(t.UnixNano())
	} else if text != "null" {
		return fmt.Errorf("time %q is not a number of microseconds", raw)
	}
	return nil
}

func (b *builder) jaeger(value json.RawMessage) error {
	if all, is, err := elementsOf(value); is {
		for _, v := range all {
			if err := b.jaeger(v); err != nil {
				return err
			}
		}
		return err
	}
	var v jaegerValue
	if err := json.Unmarshal(value, &v); err != nil {
		b.countMalformed(err)
		return nil
	}
	for _, inner := range []json.RawMessage{v.Data, v.Traces, v.Hits, v.Source} {
		if len(inner) > 0 {
			if err := b.jaeger(inner); err != nil {
				return err
			}
		}
	}
	if v.SpanID != "" {
		v.Spans = append(v.Spans, value)
	}
	places := map[string]int32{}
	for _, raw := range v.Spans {
		var s jaegerSpan
		if err := json.Unmarshal(raw, &s); err != nil {
			b.countMalformed(err)
			continue
		}
		place, known := places[s.ProcessID]
		if s.Process != nil {
			place = b.placeOf(s.Process.ServiceName, readTags(s.Process.Tags))
		} else if !known {
			p := v.Processes[s.ProcessID] // if it is missing, it has no name
			place = b.placeOf(p.ServiceName, readTags(p.Tags))
			places[s.ProcessID] = place
		}
		b.add(s.span(place))
	}
	return nil
}

// elementsOf returns the elements of a JSON value, and whether the value is an array.
func elementsOf(value json.RawMessage) (all []json.RawMessage, is bool, err error) {
	if value = bytes.TrimSpace(value); len(value) == 0 || value[0] != '[' {
		return nil, false, nil
	}
	err = json.Unmarshal(value, &all)
	return all, true, err
}

func (s *jaegerSpan) span(place int32) *span {
	of := readTags(s.Tags)
	for name, v := range s.TagMap {
		of[strings.ReplaceAll(name, "@", ".")] = fmt.Sprint(v)
	}
	result := &span{
		trace: idOf(s.TraceID), id: idOf(s.SpanID), parent: idOf(s.ParentSpanID), place: place,
		kind: kindOf(of["span.kind"]), peer: of.peer(), start_ns: int64(s.StartTime),
	}
	result.end_ns = result.start_ns + int64(s.Duration)
	for _, r := range s.References {
		if r.TraceID != "" && idOf(r.TraceID) != result.trace {
			continue
		}
		if follows := strings.EqualFold(r.RefType, "FOLLOWS_FROM"); !follows ||
			result.parent == "" {
			result.parent, result.follows = idOf(r.SpanID), follows
			if !follows {
				break
			}
		}
	}
	return result
}

// readTags reads tags, which are a list or an object. It ignores a value of any other form.
func readTags(raw json.RawMessage) attributes {
	of := attributes{}
	var list []jaegerTag
	var object map[string]any
	if json.Unmarshal(raw, &list) == nil {
		for _, t := range list {
			of[t.Key] = fmt.Sprint(t.Value)
		}
	} else if json.Unmarshal(raw, &object) == nil {
		for name, v := range object {
			of[name] = fmt.Sprint(v)
		}
	}
	return of
}

// kindOf returns the kind for which a name stands, in Jaeger or in OTLP.
func kindOf(name string) kind {
	switch strings.TrimPrefix(strings.ToLower(name), "span_kind_") {
	case "internal", "1":
		return kindInternal
	case "server", "2":
		return kindServer
	case "client", "3":
		return kindClient
	case "producer", "4":
		return kindProducer
	case "consumer", "5":
		return kindConsumer
	}
	return kindUnnamed
}
