package job

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func TestPlacementDefaults(t *testing.T) {
	p, err := ParsePlacement([]byte(`
version: 1
nodes: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2, number: 9}]
actors:
  {source: [a], deserialise: [b], filter: [a], project: [b], join: [a], count: [b], store: [a]}
stream: {tuples: 5}
`))
	if err != nil {
		t.Fatal(err)
	}
	if n := p.Nodes[0]; n.Number != 1 || n.client() != "10.0.0.1:4222" ||
		n.cluster() != "10.0.0.1:6222" || n.returnTrip() != "10.0.0.1:7222" {
		t.Errorf("node %+v", n)
	}
	if p.Nodes[1].Number != 9 {
		t.Errorf("number %d, want 9", p.Nodes[1].Number)
	}
	if s := p.Stream; s.Tuples != 5 || s.Campaigns != 100 || s.AdsPerCampaign != 10 ||
		s.Window != 10*time.Second || s.InFlight != 512 {
		t.Errorf("stream %+v", s)
	}
}

func TestPlacementRefuses(t *testing.T) {
	good, err := os.ReadFile("../loopback.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParsePlacement(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][3]string{
		"another version":     {"version: 1", "version: 2", "version 2"},
		"an unknown key":      {"seed: 1", "sead: 1", "sead"},
		"an unknown node":     {"source: [a]", "source: [z]", `"z"`},
		"an unknown operator": {"source: [a]", "sauce: [a]", `"sauce"`},
		"no instance":         {"join: [a]", "join: []", "0 instances"},
		"a name twice":        {"name: b", "name: a", `"a"`},
		"a name with a slash": {"name: b", "name: ../b", `"../b"`},
		"a host name":         {"127.0.71.1", "localhost", `"localhost"`},
		"a bad port":          {"127.0.71.1", "127.0.71.1, client_port: 70000", "70000"},
		"two sources":         {"source: [a]", "source: [a, b]", "2 sources"},
		"a negative rate":     {"per_second: 5000", "per_second: -1", "per_second -1"},
		"no rate at all":      {"per_second: 5000", "per_second: .nan", "NaN"},
		"too many ads":        {"seed: 1", "campaigns: 1000000, ads_per_campaign: 2", ""},
		"a window of nothing": {"window: 1s", "window: 1ns", "1ns"},
		"counts kept briefly": {"window: 1s", "window: 1s\n  keep: 1ms", "keep 1ms"},
		"not YAML":            {"nodes:", "nodes: {", ""},
	} {
		text := strings.Replace(string(good), change[0], change[1], 1)
		if text == string(good) {
			t.Fatalf("%s: nothing changed", name)
		}
		_, err := ParsePlacement([]byte(text))
		if !errors.Is(err, ErrPlacement) || !strings.Contains(err.Error(), change[2]) {
			t.Errorf("%s: %v, want %q", name, err, change[2])
		}
	}
}

// The same seed makes the same events, and another seed makes others.
func TestStreamFollowsItsSeed(t *testing.T) {
	s := Stream{Seed: 1, Campaigns: 10, AdsPerCampaign: 10, PerSecond: 1000}
	other := s
	other.Seed = 2
	differ := 0
	for i := range 100 {
		one, again := s.makeEvent(i, 5), s.makeEvent(i, 5)
		if one != again {
			t.Fatalf("event %d differs from itself", i)
		}
		if one != other.makeEvent(i, 5) {
			differ++
		}
		if want := int64(5 + 1000*i); s.makeEvent(i, 5).time_us != want {
			t.Errorf("event %d has time %d, want %d", i, s.makeEvent(i, 5).time_us, want)
		}
	}
	if differ != 100 {
		t.Errorf("%d of 100 events differ with the seed", differ)
	}
}
