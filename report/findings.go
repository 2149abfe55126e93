package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func (f *from) assumptions() {
	if f.Reference.Wander_ppb > 0 {
		v := Consistent
		for _, p := range f.a.Pairs {
			if verdict(p.Verdict) == Suspect {
				v = Suspect
			}
		}
		f.Assumptions = append(f.Assumptions,
			Assumption{"wander", fmt.Sprintf("%.4g ppm over ±%.4g s", f.Reference.Wander_ppb/1000,
				float64(f.Reference.Window_ns)/1e9),
				"how far the relative rate of two counters moves from its mean within a window", v})
	}
	if len(f.a.Nodes) == 0 {
		return
	}
	least, most := [2]uint64{^uint64(0), ^uint64(0)}, [2]uint64{}
	for _, n := range f.a.Nodes {
		for i, v := range []uint64{n.CoreSlack_cycles, n.Quantum_cycles} {
			least[i], most[i] = min(least[i], v), max(most[i], v)
		}
	}
	for i, a := range []Assumption{
		{Name: "core slack", Means: "how far the cores of one node disagree, in cycles of its own"},
		{Name: "quantum", Means: "the step in which a counter really moves, in cycles of its own"},
	} {
		a.Value = cycles(most[i])
		if least[i] < most[i] {
			a.Value = fmt.Sprintf("%d to %s", least[i], cycles(most[i]))
		}
		f.Assumptions = append(f.Assumptions, a)
	}
	f.Assumptions = append(f.Assumptions, Assumption{Name: "epochs", Value: "unbroken",
		Means: "no boot, suspend, migration or reset of a counter during the run: logs and " +
			"relations of another epoch are not used"})
	for _, a := range tscratio.StampsAssumed() {
		means := "where stamps are the kernel's: " + a.Means
		f.Assumptions = append(f.Assumptions,
			Assumption{Name: a.Name, Value: a.Value, Means: means})
	}
}

func (f *from) findings() {
	var events, durations, transfers, complete uint64
	var lost, filtered, inFlight, duplicates, disordered, appeared, after, withheld uint64
	var perhaps, undecided, unplaced, dropped, unaccounted, damage uint64
	var unseen []string
	for _, p := range f.a.Points {
		if text := p.Completeness.Text(); p.Source && text != "" && !slices.Contains(unseen, text) {
			unseen = append(unseen, text)
		}
		events += p.Events
		lost, inFlight, duplicates = lost+p.Lost, inFlight+p.InFlight, duplicates+p.Duplicates
		filtered, perhaps = filtered+p.Filtered, perhaps+p.Perhaps
		disordered, appeared = disordered+p.Disordered, appeared+p.Appeared
		if p.Undecided != "" {
			f.Undecided = append(f.Undecided, fmt.Sprintf("Which tuples were lost after %s: %s.",
				p.Name, p.Undecided))
		}
	}
	for _, l := range f.a.Spans {
		complete += l.Whole
		durations += l.All.Count
		undecided, unplaced = undecided+l.All.Undecided, unplaced+l.All.Unplaced
		after += l.All.After
		if l.Kind == "transfer" {
			transfers += l.All.Count
		}
	}
	for _, l := range f.a.EndToEnd {
		if l.Origin == "" { // spans with an origin have the same tuples, but begin earlier
			complete += l.All.Count
		}
		withheld += l.All.Withheld
	}
	for _, c := range f.a.Channels {
		dropped, unaccounted = dropped+c.Dropped, unaccounted+c.Unaccounted
		damage += uint64(c.Damage)
	}
	f.Totals = Totals{Events: count(f.a.Work.Events), Tuples: count(f.a.Work.Tuples),
		Complete: count(complete), Channels: int64(len(f.a.Channels)),
		Lacks: strings.Join(unseen, "; ")}

	add := func(name string, n, of uint64, zero, more Weight, means string) {
		w := zero
		if n > 0 {
			w = more
		}
		f.Findings = append(f.Findings, Finding{name, count(n), count(of), w, means})
	}
	tuples := f.a.Work.Tuples
	if durations > 0 {
		add(ReceivedBeforeSent, after, durations, Good, Wrong, "durations whose whole interval "+
			"is negative: one is proof that an assumption is broken")
		add("undecided orders", undecided, durations, Good, Note, "durations whose bound does "+
			"not tell which end came first")
	}
	if transfers == 0 && durations > 0 {
		f.Remarks = append(f.Remarks,
			Remark{Note, "no tuple was seen at two operators: there are no transfers"})
	}
	if unplaced > 0 {
		add("not computed", unplaced, durations+unplaced, Good, Wrong, "durations between nodes "+
			"that are not related: they are in no figure of this page")
	}
	if withheld > 0 {
		add("withheld", withheld, durations+withheld, Good, Wrong, "durations from origins that "+
			"would be false: not all tuples that a tuple was made of are in the logs")
	}
	add("lost", lost, tuples, Good, Note, "tuples seen no more, though a later one of the same "+
		"node went on")
	if filtered > 0 {
		add("filtered", filtered, tuples, Good, Note, "tuples seen no more, about the same share "+
			"of them all the time, as behind a filter")
	}
	if perhaps > 0 {
		add("perhaps ended", perhaps, tuples, Good, Note, "further tuples that may be lost or in "+
			"flight: others have the same ids, so it is not known which of them ended")
	}
	add("in flight", inFlight, tuples, Good, Note, "tuples seen no more, and no later one "+
		"either: on their way when the run ended")
	add("duplicated", duplicates, events, Good, Note, "events of tuples that had passed the same "+
		"place before")
	add("out of order", disordered, events, Good, Note, "events that came after one with a "+
		"greater id of the same origin")
	if appeared > 0 {
		add("appeared", appeared, tuples, Good, Note, "tuples that were not seen where "+
			"tuples begin")
	}
	add("dropped", dropped, events+dropped, Good, Note, "events that a full ring did not "+
		"keep, as counted by the ring")
	if unaccounted > 0 {
		add("unaccounted", unaccounted, events+unaccounted, Good, Wrong,
			"events that had been written and that no log accounts for")
	}
	if damage > 0 {
		add("damaged parts of logs", damage, 0, Good, Wrong, "what they held is lost; the "+
			"rest was read")
	}
	if !f.a.Complete {
		f.Remarks = append(f.Remarks,
			Remark{Note, "the run was not ended and collected: this is what was there"})
	}
	var left int
	for _, x := range f.a.Findings {
		if len(f.Remarks) >= maxRemarks {
			left++
			continue
		}
		switch x.Kind {
		case analysis.FindUndecided:
			f.Undecided = append(f.Undecided, x.Text)
		case analysis.FindImpossible, analysis.FindDamage:
			f.Remarks = append(f.Remarks, Remark{Wrong, x.Text})
		default:
			f.Remarks = append(f.Remarks, Remark{Note, x.Text})
		}
	}
	for _, m := range f.a.Missing {
		if len(f.Missing) >= maxRemarks {
			left++
			continue
		}
		f.Missing = append(f.Missing, Missing(m))
	}
	if left > 0 {
		f.Remarks = append(f.Remarks,
			Remark{Note, fmt.Sprintf("%d more remarks are in what cprof analyze --json prints",
				left)})
	}
}
