package analysis

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// If a point keeps only some tuples, a span across this point is a gap, and not a span of the path.
// If the point keeps all tuples that the other points keep, a span across it is no gap, because the
// tuples of this span did not pass the point.
func TestGapIsNoSpanOfThePath(t *testing.T) {
	for sampled, want := range []struct {
		kind   string // kind of the span from a to c
		ranked int
		wide   bool // whether shares include time that the logs do not show
	}{{"transfer ", 3, false}, {"gap b/recv", 2, true}, {"transfer ", 3, false}} {
		rng := rand.New(rand.NewPCG(1, 2))
		channels := []simrun.Channel{
			{Name: "a/send"}, {Name: "b/recv", Node: 1}, {Name: "c/recv"},
		}
		for i := range channels {
			if sampled == 2 || sampled == 1 && i == 1 { // all, or b
				channels[i].Handler = "xoy x=1 y=2"
			}
		}
		for id := range uint64(200) {
			at := uint64(simrun.Hz) + id*simrun.Hz/1000
			for i := range channels {
				if channels[i].Handler != "" && id%2 == 1 || i == 1 && sampled != 1 && id%4 > 1 {
					continue
				}
				channels[i].Records = append(channels[i].Records, simrun.Record{
					Time: at + uint64(i)*simrun.Hz/10_000, ID: id,
				})
			}
		}
		parent := t.TempDir()
		if err := simrun.Write(rng, parent, "job", simrun.Nodes(rng, 2), channels); err != nil {
			t.Fatal(err)
		}
		a := analyze(t, openRun(t, parent, "job"), Options{})
		past := -1
		for i, s := range a.Spans {
			// The gap has the tuples that the point did not keep. The spans to and from the point
			// have the rest.
			if s.Completeness.Lacks() != (sampled > 0) {
				t.Errorf("sampled %v: the span from %s to %s has %q", sampled, s.From, s.To,
					s.Completeness.Kept)
			}
			if s.From == "a/send" && s.To == "c/recv" {
				past = i
			}
		}
		if s := &a.Spans[past]; s.Kind+" "+strings.Join(s.Past, ",") != want.kind {
			t.Errorf("sampled %v: the span past b is %q, want %q", sampled, s.Kind, want.kind)
		}
		if got := a.Points[1].Completeness.Kept; (got == Sampled) != (sampled > 0) {
			t.Errorf("sampled %v: the logs of b have %q", sampled, got)
		}
		// As far as b's logs show, half of the tuples end at a. No filter dropped these.
		if got := a.Points[0].Filtered; got != 0 {
			t.Errorf("sampled %v: %d tuples are called filtered", sampled, got)
		}
		if got := len(a.Paths[0].Spans); got != want.ranked {
			t.Errorf("sampled %v: %d spans are ranked, want %d", sampled, got, want.ranked)
		}
		for _, r := range a.Paths[0].Spans {
			if wide := r.Share.Hi-r.Share.Lo > 0.1; wide != want.wide {
				t.Errorf("sampled %v: the share of span %d is %v", sampled, r.Span, *r.Share)
			}
		}
	}
}

// A window's durations are withheld if one of the window's origins is not known for sure.
func TestOriginsThatAreNotKnown(t *testing.T) {
	const ms = simrun.Hz / 1000
	at := func(ms_ uint64) uint64 { return simrun.Hz + ms_*ms }
	window := func() []simrun.Channel {
		return []simrun.Channel{
			{Name: "source/send", Records: []simrun.Record{
				{Time: at(0), ID: 1}, {Time: at(3), ID: 2},
			}},
			{Name: "window/recv", Records: []simrun.Record{
				{Time: at(1), ID: 1}, {Time: at(4), ID: 2},
			}},
			{Name: "window/link", Handler: "link", Records: []simrun.Record{
				{ID: 1, Child: 9, IsLink: true}, {ID: 2, Child: 9, IsLink: true},
			}},
			{Name: "window/send", Records: []simrun.Record{{Time: at(10), ID: 9}}},
			{Name: "sink/recv", Node: 1, Records: []simrun.Record{{Time: at(11), ID: 9}}},
		}
	}
	for name, change := range map[string]func([]simrun.Channel){
		"all are there": nil,
		"one was not seen where it began": func(c []simrun.Channel) {
			c[0].Records = c[0].Records[1:]
		},
		"one was not seen at all": func(c []simrun.Channel) {
			c[0].Records, c[1].Records = c[0].Records[1:], c[1].Records[1:]
		},
		"two have one id": func(c []simrun.Channel) {
			c[0].Records = append(c[0].Records, simrun.Record{Time: at(6), ID: 1})
			c[1].Records = append(c[1].Records, simrun.Record{Time: at(7), ID: 1})
		},
		"links were dropped": func(c []simrun.Channel) { c[2].Dropped = 1 },
	} {
		channels := window()
		if change != nil {
			change(channels)
		}
		parent := t.TempDir()
		rng := rand.New(rand.NewPCG(1, 2))
		if err := simrun.Write(rng, parent, "job", simrun.Nodes(rng, 2), channels); err != nil {
			t.Fatal(err)
		}
		a := analyze(t, openRun(t, parent, "job"), Options{})
		var origins []string
		for _, s := range a.EndToEnd {
			if s.Origin == "" {
				continue
			}
			origins = append(origins, s.Origin)
			withheld := s.All.Withheld == 1
			if withheld != (change != nil) || withheld == (s.All.Count == 1) {
				t.Errorf("%s: %s origin: %d durations, %d withheld", name, s.Origin, s.All.Count,
					s.All.Withheld)
			}
		}
		if len(origins) != 2 {
			t.Errorf("%s: origins %v", name, origins)
		}
		if said := mentions(a, "took to sink/recv is withheld"); said != (change != nil) {
			t.Errorf("%s: findings %v", name, a.Findings)
		}
	}
}
