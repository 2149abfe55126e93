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
			if parseVerdict(p.Verdict) == Suspect {
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
	for _, n := range f.a.Nodes {
		if what := n.Facts["shared_clock"]; what != "" {
			f.Assumptions = append(f.Assumptions, Assumption{
				Name: "shared clock of " + n.Name, Value: "as an operator says", Means: what})
		}
		if what := n.Facts["hardware_stamps"]; what != "" {
			f.Assumptions = append(f.Assumptions, Assumption{
				Name: "hardware stamps of " + n.Name, Value: "as an operator says", Means: what})
		}
	}
	for _, a := range tscratio.StampsAssumed() {
		means := "where stamps are the kernel's: " + a.Means
		f.Assumptions = append(f.Assumptions,
			Assumption{Name: a.Name, Value: a.Value, Means: means})
	}
}

// runCounts are counts of the whole run, which the findings compare.
type runCounts struct {
	events, durations, transfers, complete                              uint64
	lost, filtered, inFlight, perhaps, duplicates, disordered, appeared uint64
	after, undecided, unplaced, withheld                                uint64
	dropped, unaccounted, damage                                        uint64
}

func (f *from) sums() (s runCounts) {
	for _, p := range f.a.Points {
		s.events += p.Events
		s.lost, s.filtered = s.lost+p.Lost, s.filtered+p.Filtered
		s.inFlight, s.perhaps = s.inFlight+p.InFlight, s.perhaps+p.Perhaps
		s.duplicates, s.disordered = s.duplicates+p.Duplicates, s.disordered+p.Disordered
		s.appeared += p.Appeared
	}
	for _, l := range f.a.Spans {
		s.complete += l.Whole
		s.durations += l.All.Count
		s.undecided, s.unplaced = s.undecided+l.All.Undecided, s.unplaced+l.All.Unplaced
		s.after += l.All.After
		if l.Kind == "transfer" {
			s.transfers += l.All.Count
		}
	}
	for _, l := range f.a.EndToEnd {
		if l.Origin == "" { // a span with an Origin has tuples that another span counts
			s.complete += l.All.Count
		}
		s.withheld += l.All.Withheld
	}
	for _, c := range f.a.Channels {
		s.dropped, s.unaccounted = s.dropped+c.Dropped, s.unaccounted+c.Unaccounted
		s.damage += uint64(c.Damage)
	}
	return s
}

func (f *from) findings() {
	s := f.sums()
	f.Totals = Totals{Events: count(f.a.Work.Events), Tuples: count(f.a.Work.Tuples),
		Complete: count(s.complete), Channels: int64(len(f.a.Channels))}
	f.ofPoints()
	f.addCounts(&s)
	if s.transfers == 0 && s.durations > 0 {
		f.remark(Note, "no tuple was seen at two operators: there are no transfers")
	}
	if !f.a.Complete {
		f.remark(Note, "the run was not ended and collected: this is what was there")
	}
	f.showRemarks()
}

func (f *from) remark(w Weight, text string) { f.Remarks = append(f.Remarks, Remark{w, text}) }

// ofPoints notes what cannot be known because logs of points are incomplete.
func (f *from) ofPoints() {
	var lacks []string
	for _, p := range f.a.Points {
		if text := p.Completeness.Text(); p.Source && text != "" && !slices.Contains(lacks, text) {
			lacks = append(lacks, text)
		}
		if p.Undecided != "" {
			f.Undecided = append(f.Undecided, fmt.Sprintf("Which tuples were lost after %s: %s.",
				p.Name, p.Undecided))
		}
	}
	f.Totals.Lacks = strings.Join(lacks, "; ")
}

// addCounts adds a finding for each count. Some findings are shown only if the run has anything
// that they count.
func (f *from) addCounts(s *runCounts) {
	const shown = true
	tuples := f.a.Work.Tuples
	for _, x := range []struct {
		show  bool
		name  string
		n, of uint64
		more  Weight // the finding's weight if n is not 0
		means string
	}{
		{s.durations > 0, ReceivedBeforeSent, s.after, s.durations, Wrong, "durations whose " +
			"whole interval is negative: one is proof that an assumption is broken"},
		{s.durations > 0, "undecided orders", s.undecided, s.durations, Note, "durations whose " +
			"bound does not tell which end came first"},
		{s.unplaced > 0, "not computed", s.unplaced, s.durations + s.unplaced, Wrong, "durations " +
			"between nodes that are not related: they are in no figure of this page"},
		{s.withheld > 0, "withheld", s.withheld, s.durations + s.withheld, Wrong, "durations " +
			"from origins that would be false: not all tuples that a tuple was made of are in " +
			"the logs"},
		{shown, "lost", s.lost, tuples, Note, "tuples seen no more, though a later one of the " +
			"same node went on"},
		{s.filtered > 0, "filtered", s.filtered, tuples, Note, "tuples seen no more, about the " +
			"same share of them all the time, as behind a filter"},
		{s.perhaps > 0, "perhaps ended", s.perhaps, tuples, Note, "further tuples that may be " +
			"lost or in flight: others have the same ids, so it is not known which of them ended"},
		{shown, "in flight", s.inFlight, tuples, Note, "tuples seen no more, and no later one " +
			"either: on their way when the run ended"},
		{shown, "duplicated", s.duplicates, s.events, Note, "events of tuples that had passed " +
			"the same place before"},
		{shown, "out of order", s.disordered, s.events, Note, "events that came after one with " +
			"a greater id of the same origin"},
		{s.appeared > 0, "appeared", s.appeared, tuples, Note, "tuples that were not seen where " +
			"tuples begin"},
		{shown, "dropped", s.dropped, s.events + s.dropped, Note, "events that a full ring did " +
			"not keep, as counted by the ring"},
		{s.unaccounted > 0, "unaccounted", s.unaccounted, s.events + s.unaccounted, Wrong,
			"events that had been written and that no log accounts for"},
		{s.damage > 0, "damaged parts of logs", s.damage, 0, Wrong, "what they held is lost; " +
			"the rest was read"},
	} {
		weight := Good
		if x.n > 0 {
			weight = x.more
		}
		if x.show {
			f.Findings = append(f.Findings, Finding{x.name, count(x.n), count(x.of), weight,
				x.means})
		}
	}
}

// showRemarks shows the findings of the analysis and what is missing, as far as a page has room.
func (f *from) showRemarks() {
	left := 0
	for _, x := range f.a.Findings {
		if len(f.Remarks) >= maxRemarks {
			left++
			continue
		}
		switch x.Kind {
		case analysis.FindUndecided:
			f.Undecided = append(f.Undecided, x.Text)
		case analysis.FindImpossible, analysis.FindDamage:
			f.remark(Wrong, x.Text)
		default:
			f.remark(Note, x.Text)
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
		f.remark(Note, fmt.Sprintf("%d more remarks are in what cprof analyze --json prints", left))
	}
}
