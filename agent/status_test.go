package agent

import (
	"fmt"
	"strings"
	"testing"
)

// No matter how many rings are in trouble, the warnings are few, and the agent makes them quickly.
func TestTroublesOfManyRings(t *testing.T) {
	s := Status{SetAside: 95_000}
	for i := range 90_000 {
		s.Channels = append(s.Channels, RingStatus{
			Channel: fmt.Sprint("/rings/", i), Trouble: "no ring", SetAside: true,
		})
	}
	for range 3 {
		s.Channels = append(s.Channels, RingStatus{Channel: "a/b", Trouble: "the disk is full"},
			RingStatus{Channel: "c/d"})
	}
	all := s.warnings()
	if len(all) != maxTroubles+2 || all[0] != "/rings/0: no ring" {
		t.Fatalf("%d warnings, the first %q", len(all), all[0])
	}
	for i, want := range []string{"89901 more channels have such troubles",
		"5000 more rings are set aside"} {
		if got := all[maxTroubles+i]; got != want {
			t.Errorf("says %q, want %q", got, want)
		}
	}
	// Each trouble of a channel is reported once, even if many of its rings have it.
	s.Channels = s.Channels[90_000:]
	s.SetAside = 0
	if all := s.warnings(); len(all) != 1 || all[0] != "a/b: the disk is full" {
		t.Errorf("warnings %q", all)
	}
}

// The page does not claim to know whether the program of a ring that was set aside still runs.
func TestPageOfRings(t *testing.T) {
	s := Status{Channels: []RingStatus{
		{Channel: "a/aside", SetAside: true}, {Channel: "a/living", Alive: true},
		{Channel: "a/dead"},
	}}
	html := string(statusPage(&s))
	for channel, want := range map[string]string{"a/aside": "<td>set aside", "a/living": "<td>runs",
		"a/dead": "<td>ended"} {
		_, row, _ := strings.Cut(html, "<td>"+channel)
		if row, _, _ = strings.Cut(row, "\n"); !strings.Contains(row, want) {
			t.Errorf("%s: %q, want %q in it", channel, row, want)
		}
	}
}
