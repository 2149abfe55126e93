package watch

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

var abc = []string{"[a/x c/x]", "a/x b/x", "b/x c/x"}

// A picture of a job over three nodes shows each span, with true durations, exact counts and an
// age.
func TestPictureOfAChain(t *testing.T) {
	s := newSim(t, "alpha", "beta", "gamma")
	p := s.simulateChain(6, nil)
	if d := cmp.Diff(abc, names(p)); d != "" {
		t.Fatalf("spans:\n%s", d)
	}
	for _, want := range []struct {
		from, to string
		p50, p99 int64
	}{
		{"a/x", "b/x", 450_000, 499_000}, {"b/x", "c/x", 500_000, 500_000},
		{"a/x", "c/x", 950_000, 999_000},
	} {
		l := span(p, want.from, want.to)
		for _, one := range []struct {
			shown Interval
			truth int64
		}{{l.P50, want.p50}, {l.P99, want.p99}} {
			const widest = 2*20_000 + 20_000 // a round trip, and an allowance for wander
			if one.truth < one.shown.Lo_cycles || one.truth > one.shown.Hi_cycles ||
				one.shown.Hi_cycles-one.shown.Lo_cycles > widest {
				t.Errorf("%s → %s: %+v, want %d in it", l.From, l.To, one.shown, one.truth)
			}
			if one.shown.Lo_ns > float64(one.truth) || one.shown.Hi_ns < float64(one.truth) {
				t.Errorf("%s → %s: %+v ns, want %d in it", l.From, l.To, one.shown, one.truth)
			}
		}
		// The window of 2 s has 10 ticks of 100 tuples. The newest tick may come with the next
		// picture.
		if l.Tuples < 850 || l.Tuples > 1000 || l.Estimate || l.Unknown+l.LeftOut > 0 {
			t.Errorf("%+v", l)
		}
		if want := 100 / 0.202; l.To_s.Lo > want || l.To_s.Hi < want {
			t.Errorf("rate %+v, want %v", l.To_s, want)
		}
	}
	if p.Age_ns < 1_000_000 || p.Age_ns > 1_500_000 || len(p.Notes) != 0 ||
		p.Reference.Node != "alpha" {
		t.Errorf("age %d, reference %+v, notes %v", p.Age_ns, p.Reference, p.Notes)
	}
	if len(p.Points) != 3 || p.Points[0].Events != 1000 && p.Points[0].Events != 1100 {
		t.Errorf("points %+v", p.Points)
	}
}

// If events are missing, the picture never shows a span that no tuple took, and it says what is
// missing.
func TestPicturesOfWhatIsMissing(t *testing.T) {
	beta := func(s *sim) *simNode { return s.node("beta") }
	tests := map[string]struct {
		change func(s *sim, tick int) // called before each tick; the test lasts 6 s
		want   []string               // spans with tuples; nil: the spans of the chain
		note   string
		some   string // what the picture says at b/x
	}{
		"nothing": {},
		"a handler that keeps some": {
			change: func(s *sim, tick int) {
				c := beta(s).channel("b/x")
				c.Handler, c.Keeps = "xoy x=1 y=2", control.KeepsSome
				beta(s).sample = func(m *control.Sample) { keepOneOf(m, 2) }
			},
			some: "xoy x=1 y=2",
		},
		"a program that drops": {
			change: func(s *sim, tick int) {
				beta(s).channel("b/x").Dropped = 50
				beta(s).sample = func(m *control.Sample) { keepOneOf(m, 2) }
			},
			some: "drops",
		},
		"a message that is lost": {
			change: func(s *sim, tick int) {
				beta(s).sample = nil
				if tick == 27 {
					beta(s).channel("b/x").Events, beta(s).number = 0, beta(s).number+1
					beta(s).sample = func(m *control.Sample) { keepOneOf(m, 1000) }
				}
			},
			note: "beta: some of its messages were lost", some: "lost messages of beta",
		},
		"events without room": {
			change: func(s *sim, tick int) {
				beta(s).sample = func(m *control.Sample) { m.Lost = 50; keepOneOf(m, 2) }
			},
			note: "beta: some of its messages were lost", some: "lost messages of beta",
		},
		"a node that uses more bits": {
			change: func(s *sim, tick int) { beta(s).bits = 2 },
		},
		"a node that uses more bits for a while": {
			change: func(s *sim, tick int) {
				if beta(s).bits = 0; tick >= 20 && tick < 23 {
					beta(s).bits = 3
				}
			},
		},
		"a node that is ever later than others": {
			change: func(s *sim, tick int) {
				beta(s).cyclesBehind = 100_000_000
			},
		},
		"a node that began later": {
			change: func(s *sim, tick int) {
				beta(s).sendsNothing = tick < 26
				if tick == 26 {
					for _, c := range beta(s).channels {
						c.Sampled = nil
					}
					beta(s).began = s.now
				}
			},
		},
		"a node that fell silent": {
			change: func(s *sim, tick int) { beta(s).sendsNothing = tick > 18 },
			want:   []string{"a/x c/x"},
			note:   "beta: silent for", some: "beta is silent",
		},
		"a node that is not related": {
			change: func(s *sim, tick int) {
				s.skippedPairs = [][2]string{{"alpha", "beta"}, {"beta", "gamma"}}
			},
			want: []string{"a/x c/x"}, note: "beta: no relation with alpha yet",
		},
		"a virtual node": {
			change: func(s *sim, tick int) {
				beta(s).about = func(n *coordinator.WatchedNode) { n.Virtual = true }
			},
			want: []string{"a/x c/x"},
			note: "beta: virtual: its logs are translated only after the run",
		},
		"a node that thins out without need": {
			change: func(s *sim, tick int) { beta(s).bits = 40 },
			want:   []string{"a/x c/x"}, note: "beta: takes fewer tuples than it has to",
			some: "beta thins out",
		},
		"nodes without events, just begun": {
			change: func(s *sim, tick int) {
				beta(s).bits = max(0, 6-tick)
			},
		},
		"an old agent": {
			change: func(s *sim, tick int) {
				beta(s).about = func(n *coordinator.WatchedNode) {
					n.CanWatch, n.Software = false, "cp-agent v0"
				}
			},
			want: []string{"a/x c/x"},
			note: "beta: its agent is too old to be watched (cp-agent v0): paths may",
		},
		"a node that only measures": {
			change: func(s *sim, tick int) {
				beta(s).about = func(n *coordinator.WatchedNode) {
					n.Agent, n.CanWatch = false, false
				}
			},
			want: []string{"a/x c/x"}, note: "beta: tsc-client: keeps no events",
		},
		"channels without room": {
			change: func(s *sim, tick int) {
				beta(s).sample = func(m *control.Sample) { m.Left = 7 }
			},
			note: "beta: 7 more channels have no room",
		},
		"no run": {
			change: func(s *sim, tick int) { s.run = "" },
			note:   "no run is open (cprof run start NAME)",
		},
		"another epoch": {
			change: func(s *sim, tick int) {
				if tick == 20 {
					b := beta(s)
					// its counter jumps by half a second
					b.epoch, b.offset, b.number, b.began = "e2", b.offset+hz/2, 0, s.now
					b.channels = nil
					s.pairs[[2]string{"alpha", "beta"}] = s.measuredPair(s.node("alpha"), b)
					s.pairs[[2]string{"beta", "gamma"}] = s.measuredPair(b, s.node("gamma"))
				}
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "alpha", "beta", "gamma")
			p := s.simulateChain(6, func(tick int) {
				if test.change != nil {
					test.change(s, tick)
				}
			})
			want := test.want
			if want == nil {
				want = abc
			}
			if got := names(p); cmp.Diff(want, got) != "" && len(want)+len(got) > 0 {
				t.Errorf("spans %q, want %q", got, want)
			}
			if s.unseen && !strings.Contains(test.note, "tsc-client") {
				t.Error("a picture has a span that no tuple took")
			}
			notes := strings.Join(p.Notes, "\n")
			if !strings.Contains(notes, test.note) || test.note == "" && notes != "" {
				t.Errorf("notes %q, want %q", notes, test.note)
			}
			for _, point := range p.Points {
				if point.Name == "b/x" && point.Some != test.some {
					t.Errorf("b/x lacks some because of %q, want %q", point.Some, test.some)
				}
			}
		})
	}
}

// keepOneOf thins out the sampled events: of every group of the given size, it keeps only the last.
func keepOneOf(m *control.Sample, one int) {
	for i := range m.Channels {
		c := &m.Channels[i]
		var kept []control.SampledEvent
		for k, e := range c.Sampled {
			if k%one == one-1 {
				kept = append(kept, e)
			}
		}
		c.Sampled = kept
	}
}

// If tuples take parallel branches, a picture shows no span from one branch to the other.
func TestPictureOfAFork(t *testing.T) {
	s := newSim(t, "alpha", "beta", "gamma")
	var p *Picture
	for tick := range uint64(20) {
		for i := range uint64(50) {
			id, at := tick<<32+i, s.now+i*1_000_000
			s.logEvent("alpha", "a/x", id, at)
			first, second := uint64(300_000), uint64(600_000)
			if i%2 == 0 {
				first, second = second, first
			}
			s.logEvent("beta", "b/x", id, at+first)
			s.logEvent("gamma", "c/x", id, at+second)
			s.logEvent("alpha", "d/x", id, at+900_000)
		}
		s.now += hz / 5
		s.ask()
		p = s.v.Picture(s.clock())
	}
	want := []string{"[a/x d/x]", "a/x b/x", "a/x c/x", "b/x d/x", "c/x d/x"}
	if d := cmp.Diff(want, names(p)); d != "" {
		t.Error(d)
	}
}

// A picture leaves out ids that come twice at a point, and counts them.
func TestPictureOfRepeatedIds(t *testing.T) {
	s := newSim(t, "alpha", "beta", "gamma")
	p := s.simulateChain(4, func(int) {
		for range 2 {
			s.logEvent("alpha", "a/x", 5, s.now)
			s.logEvent("beta", "b/x", 5, s.now+7)
		}
	})
	if notes := strings.Join(p.Notes, ""); !strings.Contains(notes, "and are left out: 1") {
		t.Errorf("notes %q", notes)
	}
	if l := span(p, "a/x", "b/x"); l.P50.Lo_cycles < 300_000 {
		t.Errorf("%+v", l)
	}
}

// If one node sends more events than a View takes from a node (maxEvents_s), the pictures of the
// other nodes do not change.
func TestPictureUnderAFlood(t *testing.T) {
	s := newSim(t, "alpha", "beta", "gamma", "liar")
	next := uint64(1 << 50)
	liar := s.node("liar")
	for range 200 {
		liar.channel("z" + string(rune('a'+len(liar.channels)%26)) + strings.Repeat("y",
			len(liar.channels)) + "/x")
	}
	p := s.simulateChain(6, func(int) {
		for range 40_000 {
			next++
			s.logEvent("liar", liar.channels[next%200].Name, next, s.now)
		}
	})
	if d := cmp.Diff(abc, names(p)); d != "" {
		t.Error(d)
	}
	if n := len(s.v.tuples); n > 6*maxEvents_s+10_000 {
		t.Errorf("%d tuples are kept", n)
	}
	if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "liar: sends more than") {
		t.Errorf("notes %q", notes)
	}
}

// If a relation is suspect, the durations that rest on it are marked as estimates.
func TestEstimates(t *testing.T) {
	s := newSim(t, "alpha", "beta")
	a, b := s.node("alpha"), s.node("beta")
	pair, err := tscratio.NewPair(a.described(), b.described(), tscratio.DefaultAssumptions())
	if err != nil {
		t.Fatal(err)
	}
	wrong := uint64(0)
	for at := s.now - 20*hz; at <= s.now; at += hz {
		s.addTrain(pair, a, b, at, wrong)
		if at < s.now-10*hz { // the rate changes by 20 ppm
			wrong += 20_000
		}
	}
	s.pairs[[2]string{"alpha", "beta"}] = &simPair{pair, s.now, wrong}
	var p *Picture
	for tick := range uint64(10) {
		s.logEvent("alpha", "a/x", tick, s.now)
		s.logEvent("beta", "b/x", tick, s.now+400_000)
		s.now += hz / 5
		s.ask()
		p = s.v.Picture(s.clock())
	}
	if l := span(p, "a/x", "b/x"); !l.Estimate || l.Tuples == 0 {
		t.Errorf("%+v", l)
	}
	if notes := strings.Join(p.Notes, ""); !strings.Contains(notes, "! an estimate") {
		t.Errorf("notes %q", notes)
	}
}

// If the stamps of a channel may be wrong by some cycles (Slack_cycles), the intervals of the
// durations from and to its points are wider by that slack.
func TestSlackOfStamps(t *testing.T) {
	s := newSim(t, "alpha", "beta", "gamma")
	s.node("alpha").channel("a/x").Slack_cycles = 1_000_000
	s.node("beta").channel("b/x").Slack_cycles = 1_000_000
	p := s.simulateChain(4, nil)
	width := func(s Interval) int64 { return s.Hi_cycles - s.Lo_cycles }
	both, one := width(span(p, "a/x", "b/x").P50), width(span(p, "b/x", "c/x").P50)
	if both < 4_000_000 || one < 2_000_000 || one > 3_000_000 {
		t.Errorf("widths %d and %d", both, one)
	}
}

// A fleet of one node has no relations, and needs none.
func TestPictureOfOneNode(t *testing.T) {
	s := newSim(t, "alpha")
	var p *Picture
	for tick := range uint64(10) {
		for i := range uint64(50) {
			s.logEvent("alpha", "a/start", tick<<32+i, s.now+i)
			s.logEvent("alpha", "a/end", tick<<32+i, s.now+i+4000)
		}
		s.now += hz / 5
		s.ask()
		p = s.v.Picture(s.clock())
	}
	want := Interval{4000 - quantum - slack, 4000 + quantum + slack, 0, 0}
	got := span(p, "a/start", "a/end").P99
	if got.Lo_ns, got.Hi_ns = 0, 0; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// The age of a picture grows while no Sample comes. It is never less than the time since the data
// of any node ended.
func TestAge(t *testing.T) {
	s := newSim(t, "alpha", "beta", "gamma")
	p := s.simulateChain(4, func(int) {
		s.node("beta").sample = func(m *control.Sample) {
			m.Since_ns -= 300_000_000 // the node's data end 0.3 s earlier
			m.Until_cycles -= 300_000_000
		}
	})
	if p.Age_ns < 301_000_000 || p.Age_ns > 302_000_000 {
		t.Errorf("age %v", time.Duration(p.Age_ns))
	}
	s.now += hz
	if again := s.v.Picture(s.clock()); again.Age_ns-p.Age_ns != hz {
		t.Errorf("a second later the age is %v", time.Duration(again.Age_ns))
	}
	s.now += hz
	if again := s.v.Picture(s.clock()); again.Age_ns != -1 || len(again.Spans) > 0 {
		t.Errorf("without any node, the picture is %+v", again)
	}
}

// A View does not keep tuples, orders and nodes for ever.
func TestViewForgets(t *testing.T) {
	s := newSim(t, "alpha", "beta", "gamma")
	s.simulateChain(4, nil)
	s.now += uint64(Kept) + hz
	s.ask()
	if len(s.v.tuples) > 0 {
		t.Errorf("%d tuples are kept", len(s.v.tuples))
	}
	s.nodes = s.nodes[:1]
	clear(s.pairs)
	s.ask()
	if len(s.v.nodes) != 1 {
		t.Errorf("%d nodes are kept", len(s.v.nodes))
	}
	if p := s.v.Picture(s.clock()); len(p.Nodes) != 1 {
		t.Errorf("%d nodes are shown", len(p.Nodes))
	}
}
