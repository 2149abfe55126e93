package report

import (
	"fmt"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
)

// Inferred is what captured messages tell about requests: which calls each request led to. These
// links from requests to calls are inferred, and have probabilities. If nothing was captured, all
// lists are empty.
type Inferred struct {
	Requests int64   `json:"requests"` // in the run
	Chosen   int64   `json:"chosen"`   // of which the following tells
	Links    int64   `json:"links"`    // of the run
	Said     int64   `json:"said"`     // links with at least the probability Said_at
	Said_at  float64 `json:"said_at"`
	Sure     int64   `json:"sure"` // links with at least the probability Sure_at
	Sure_at  float64 `json:"sure_at"`
	Lost     int64   `json:"lost"`  // messages that were seen and not stored
	Mixed    int64   `json:"mixed"` // connections on which responses could not be told apart

	Patterns []Pattern `json:"patterns"` // the one that took the most time first
	Without  int64     `json:"without"`  // patterns that are not shown
	Traces   []Trace   `json:"traces"`   // the slowest requests, the slowest one first
}

// Pattern is what requests with equal trees of calls have in common.
type Pattern struct {
	From        string       `json:"from"` // the program that sent the requests; empty: unknown
	Requests    int64        `json:"requests"`
	Probability float64      `json:"probability"` // mean, that all links of a request are right
	Total       Interval     `json:"total"`       // time of all its requests
	Whole       []Percentile `json:"whole"`       // of a request
	Slow        int64        `json:"slow"`        // the number of slow requests; 0: too few
	Slower      Interval     `json:"slower"`      // by how much they took longer than fast ones
	Calls       []Call       `json:"calls"`       // each before those that it leads to
	Verdict     Verdict      `json:"verdict"`     // of the times of whole requests
}

// Call is a call that every request of a pattern makes.
type Call struct {
	Depth         int64        `json:"depth"`
	Program       string       `json:"program"` // the called program
	Nodes         []string     `json:"nodes"`
	Probability   float64      `json:"probability"` // mean, of the link to the call above
	Own           []Percentile `json:"own"`         // time in the program itself
	WaitedOwn     Interval     `json:"waited_own"`  // what requests waited for, in all
	WaitedNetwork Interval     `json:"waited_network"`
	SlowerOwn     Interval     `json:"slower_own"` // its part of Pattern.Slower
	SlowerNetwork Interval     `json:"slower_network"`
	Verdict       Verdict      `json:"verdict"` // of all its times
}

// Trace is one request, with the calls that it led to.
type Trace struct {
	Pattern     int64       `json:"pattern"` // number of its pattern, from 1
	Probability float64     `json:"probability"`
	Whole       Interval    `json:"whole"`
	Calls       []TraceCall `json:"calls"`
	Verdict     Verdict     `json:"verdict"` // of Whole
}

// TraceCall is a call of a trace. Moments are counted from the beginning of the request. A field is
// nil if its value is not known.
type TraceCall struct {
	Depth       int64     `json:"depth"`
	From        string    `json:"from"` // the calling program; empty: not captured
	Program     string    `json:"program"`
	Node        string    `json:"node"` // of the called program; empty: not captured
	Probability float64   `json:"probability"`
	Runner_up   float64   `json:"runner_up"`
	Messages    []string  `json:"messages"` // socket:cycles of request and response
	Sent        *Interval `json:"sent"`
	Received    *Interval `json:"received"`
	Replied     *Interval `json:"replied"`
	Got         *Interval `json:"got"`
	Own         *Interval `json:"own"`
	Verdict     Verdict   `json:"verdict"` // of all its times
}

// MaxTraces is the largest number of requests that a page shows.
const MaxTraces = 200

const (
	maxPatterns   = 20   // patterns that a page shows
	maxTraceCalls = 3000 // calls of all requests that a page shows
)

// AddRequests adds to the page's data what was inferred about requests. The answer may be nil.
func (d *Data) AddRequests(a *paths.Answer) {
	if a == nil {
		return
	}
	i := &d.Inferred
	i.Requests, i.Chosen, i.Links = int64(a.Requests), int64(a.Chosen), int64(a.Links)
	i.Said, i.Said_at = int64(a.Said), link.Said
	i.Sure, i.Sure_at = int64(a.Sure), link.Sure
	i.Mixed = int64(a.Mixed)
	for _, n := range a.Nodes {
		for _, lost := range n.Lost {
			i.Lost += count(lost)
		}
	}
	i.Without = int64(max(0, len(a.Patterns)-maxPatterns))
	for k := range a.Patterns {
		p := &a.Patterns[k]
		if p.Suspect || slices.ContainsFunc(p.Calls, func(c paths.Call) bool { return c.Suspect }) {
			d.Verdict = Suspect
		}
	}
	for k := range a.Patterns[:min(len(a.Patterns), maxPatterns)] {
		i.Patterns = append(i.Patterns, patternOf(&a.Patterns[k]))
	}
	n := 0
	for k := range a.Slowest[:min(len(a.Slowest), MaxTraces)] {
		if n += len(a.Slowest[k].Calls); n > maxTraceCalls && k > 0 {
			break
		}
		i.Traces = append(i.Traces, traceOf(&a.Slowest[k]))
	}
}

func verdictOf(isSuspect bool) Verdict {
	if isSuspect {
		return Suspect
	}
	return Consistent
}

func patternOf(p *paths.Pattern) Pattern {
	of := Pattern{From: p.From, Requests: int64(p.Requests), Probability: p.Probability,
		Total: roundInterval(p.Whole.Total), Whole: percentiles(&p.Whole), Slow: int64(p.Slow),
		Slower: roundInterval(p.Slower), Verdict: verdictOf(p.Suspect)}
	for k := range p.Calls {
		c := &p.Calls[k]
		of.Calls = append(of.Calls, Call{Depth: int64(c.Depth), Program: c.Program, Nodes: c.Nodes,
			Probability: c.Probability, Own: percentiles(&c.Own),
			WaitedOwn: roundInterval(c.WaitedOwn), WaitedNetwork: roundInterval(c.WaitedNetwork),
			SlowerOwn: roundInterval(c.SlowerOwn), SlowerNetwork: roundInterval(c.SlowerNetwork),
			Verdict: verdictOf(c.Suspect)})
	}
	return of
}

func percentiles(d *paths.Distribution) (all []Percentile) {
	for _, p := range d.Percentiles {
		i := paths.Interval{Lo_cycles: p.Lo_cycles, Hi_cycles: p.Hi_cycles}
		all = append(all, roundPercentile(p.Percent, i))
	}
	return all
}

func traceOf(p *paths.Path) Trace {
	t := Trace{Pattern: int64(p.Pattern + 1), Probability: p.Probability,
		Whole: roundInterval(*p.Whole), Verdict: verdictOf(p.Suspect)}
	known := func(i *paths.Interval) *Interval {
		if i == nil {
			return nil
		}
		of := roundInterval(*i)
		return &of
	}
	for k := range p.Calls {
		c := &p.Calls[k]
		of := TraceCall{Depth: int64(c.Depth), From: c.From.Program, Program: c.To.Program,
			Node: c.To.Node, Probability: c.Probability, Runner_up: c.RunnerUp,
			Sent: known(c.Sent), Received: known(c.Received), Replied: known(c.Replied),
			Got: known(c.Got), Own: known(c.Own), Verdict: verdictOf(c.Suspect)}
		for _, m := range []*messages.Call{c.Request, c.Response} {
			if m != nil {
				of.Messages = append(of.Messages, fmt.Sprintf("%d:%d", m.Cookie, m.Lo_cycles))
			}
		}
		t.Calls = append(t.Calls, of)
	}
	return t
}
