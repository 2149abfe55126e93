package report

import (
	"fmt"
	"slices"
)

// emptyData returns the data of a run about which nothing is known.
func emptyData() *Data {
	d := &Data{Version: Version, Run: Run{Name: "nothing", Program: "cprof sample"},
		Verdict: Consistent}
	for _, part := range []string{PartGraph, PartSegments, PartLatency, PartThroughput, PartBounds,
		PartTuples, PartNodes, PartFacts, PartSeconds} {
		d.Absent = append(d.Absent, Absent{part, "no log of any node was collected"})
	}
	return d
}

// messagesData returns the data of a run in which messages were captured, but no program logged
// tuples.
func messagesData() *Data {
	d := emptyData()
	whole := sampleData(sampleSeed)
	d.Run.Name, d.Reference, d.Assumptions = "messages", whole.Reference, whole.Assumptions
	d.Nodes, d.Pairs = whole.Nodes, whole.Pairs
	d.Findings = []Finding{{Name: "lost", Means: "tuples seen no more", Weight: Good}}
	d.AddMessages(capturedSample())
	d.AddRequests(requestSample(40))
	return d
}

// hostileData returns data with names that look like markup, in every place where the page shows
// text from a run.
func hostileData(seed uint64) *Data {
	const evil = `</script><script>document.title="owned"</script>` +
		`<img src=x onerror='document.title="owned"'>` + "\u2028<!--"
	d := sampleData(seed)
	d.Run.Name, d.Run.Note, d.Reference.Why, d.Reference.Hz_source = evil, evil, evil, evil
	d.Reference.Length_means = evil
	for i := range d.Actors {
		d.Actors[i].Name += evil
	}
	for i := range d.Spans {
		x := &d.Spans[i]
		x.Name, x.From, x.To = x.Name+evil, x.From+evil, x.To+evil
		x.Pauses = evil
		x.Nodes[0], x.Scenarios[0].Scenario = x.Nodes[0]+evil, evil
	}
	for i := range d.Paths {
		r := &d.Paths[i]
		r.Begins[0] += evil
		r.Points, r.Of, r.Unsure, r.Slowest[0].Of = evil, evil, evil, evil
		r.Slowest[0].Name, r.Slowest[0].Points, r.Slowest[0].Means = evil, evil, evil
	}
	for i := range d.Throughput {
		d.Throughput[i].Name, d.Throughput[i].Source = evil, evil
	}
	for i := range d.Comparisons {
		d.Comparisons[i].A += evil
		d.Comparisons[i].B += evil
	}
	for i := range d.Tuples {
		d.Tuples[i].Why = evil
		for j := range d.Tuples[i].Pauses {
			p := &d.Tuples[i].Pauses[j]
			p.JVM, p.Node, p.Kind = evil, evil, evil
		}
		for j := range d.Tuples[i].Steps {
			d.Tuples[i].Steps[j].Name, d.Tuples[i].Steps[j].Scenario = evil, evil
		}
	}
	for i := range d.Nodes {
		d.Nodes[i].Name += evil
		d.Nodes[i].Epoch, d.Nodes[i].Left = evil, evil
		for j := range d.Nodes[i].Facts {
			d.Nodes[i].Facts[j] = Fact{evil, evil}
		}
	}
	for i := range d.Messages.Services {
		s := &d.Messages.Services[i]
		s.Name, s.Node, s.Hosts = s.Name+evil, s.Node+evil, []string{evil}
	}
	d.Messages.Left[0].Reason, d.Messages.Lost[0].Node = evil, evil
	d.Messages.Outside[0] = Outside{evil, evil, evil, 1, []string{evil}, 1, 1}
	for i := range d.Pairs {
		d.Pairs[i].A += evil
		d.Pairs[i].B += evil
		d.Pairs[i].Reason, d.Pairs[i].Paths = evil, evil
	}
	d.Assumptions[0] = Assumption{evil, evil, evil, Suspect}
	d.Findings[0].Name, d.Findings[0].Means = evil, evil
	d.Undecided[0], d.Absent[0].Reason, d.Remarks[0].Text = evil, evil, evil
	d.Missing[0] = Missing{evil, evil}
	return d
}

// pastData returns data with transfers that skip operators of the path. If short is true, the data
// have only a few operators, and the page draws the graph from left to right.
func pastData(short bool) *Data {
	d := sampleData(sampleSeed)
	past := slices.Clone(d.Spans)
	for i, of := range [][2]string{{"source", "enrich"}, {"source", "sink"}, {"parse", "window"}} {
		x := past[slices.IndexFunc(past, func(s Span) bool { return s.Kind == Transfer })]
		x.ID, x.From, x.To, x.Name = fmt.Sprintf("past-%d", i), of[0], of[1], of[0]+" → "+of[1]
		d.Spans = append(d.Spans, x)
	}
	if short {
		gone := func(name string) bool { return name == "window" || name == "sink" }
		d.Actors = slices.DeleteFunc(d.Actors, func(a Actor) bool { return gone(a.Name) })
		d.Spans = slices.DeleteFunc(d.Spans, func(s Span) bool {
			return gone(s.From) || gone(s.To)
		})
	}
	return d
}

// largeData returns as much data as a page must be able to show: 30 nodes, all of their pairs, and
// a job of many actors.
func largeData(seed uint64) *Data {
	d := sampleData(seed)
	d.Run.Name = "thirty-nodes"
	for i := len(d.Nodes); i < 30; i++ {
		node := d.Nodes[i%2]
		node.Name = fmt.Sprintf("node-%02d", i)
		d.Nodes = append(d.Nodes, node)
	}
	pairs, compared := slices.Clone(d.Pairs), slices.Clone(d.Comparisons)
	for i := range d.Nodes {
		for j := max(i+1, 3); j < len(d.Nodes); j++ {
			pair := pairs[(i+j)%7%2]
			pair.A, pair.B = d.Nodes[i].Name, d.Nodes[j].Name
			pair.Bound_cycles += int64(37 * i)
			d.Pairs = append(d.Pairs, pair)
			comparison := compared[(i+j)%2]
			comparison.A, comparison.B = pair.A, pair.B
			if i < 4 {
				d.Comparisons = append(d.Comparisons, comparison)
			}
		}
	}
	spans := slices.Clone(d.Spans)
	for i := range 4 {
		for _, x := range spans {
			x.ID = fmt.Sprintf("%s-%d", x.ID, i)
			if x.Kind != EndToEnd {
				suffix := fmt.Sprintf("/%d", i)
				x.Name, x.From, x.To = x.Name+suffix, x.From+suffix, x.To+suffix
				d.Spans = append(d.Spans, x)
			}
		}
		for _, a := range d.Actors[:6] {
			a.Name = fmt.Sprintf("%s/%d", a.Name, i)
			d.Actors = append(d.Actors, a)
		}
	}
	return d
}
