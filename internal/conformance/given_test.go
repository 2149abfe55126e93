package conformance

import (
	"encoding/binary"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// at makes the program log as many events as count says. Their stamp is the counter at the
// beginning plus the argument stamp.
func (s *scene) at(stamp, first, count uint64) {
	s.t.Helper()
	s.do("at %d %d %d", s.began+stamp, first, count)
}

// stamped contains what a program does with given stamps, and what its log must contain afterwards.
var stamped = map[string]struct {
	open    string
	late    bool // the drainer starts when the channel is closed
	run     func(s *scene)
	want    kept
	misused bool
}{
	"between readings": {
		open: "open one a/x id 0 0 0 0 - - 256",
		run: func(s *scene) {
			for i := range uint64(50) { // several laps of the ring
				s.do("log %d 2", 5*i)
				s.at(10+i, 5*i+2, 1)
				s.do("log %d 1", 5*i+3)
				s.at(10+i, 5*i+4, 1)
			}
		},
		want: kept{IDs: ids(0, 250, 1), Given: func() (twice []uint64) {
			for i := range uint64(50) {
				twice = append(twice, 10+i, 10+i)
			}
			return twice
		}()},
	},
	"unordered": {
		open: "open one a/x buffered 0 0 0 0 - rdtsc 0",
		run:  func(s *scene) { s.at(7, 1, 1); s.do("log 2 2"); s.at(8, 4, 1) },
		want: kept{IDs: ids(1, 4, 1), Given: []uint64{7, 8}},
	},
	"full": {
		open: "open one a/x id 0 0 0 0 drop - 256",
		late: true,
		run: func(s *scene) {
			s.at(7, 0, 15)
			s.do("log 15 1")
			s.at(8, 16, 2)
			s.at(9, 18, 1)
			s.says("3", "dropped")
		},
		want: kept{IDs: ids(0, 16, 1), Drops: []drop{{16, 3, logstore.RingFull}},
			Given: append([]uint64{8, 9}, slices.Repeat([]uint64{7}, 15)...)}, // drops, then events
	},
	"downsample": {
		open: "open one a/x downsample 3 0 0 0 - - 0",
		run:  func(s *scene) { s.at(7, 0, 9) },
		want: kept{IDs: ids(0, 3, 3), Given: []uint64{7, 7, 7}},
	},
	"xoy": {
		open: "open one a/x xoy 0 1 4 0 - - 0",
		run:  func(s *scene) { s.at(7, 0, 8) },
		want: kept{IDs: ids(0, 2, 4), Given: []uint64{7, 7}},
	},
	"counter": {
		open: "open one a/x counter 0 0 0 1000000 - - 0",
		run:  func(s *scene) { s.at(7, 0, 5); s.do("log 0 2") },
		want: kept{Counted: 7},
	},
	"first and last": {
		open: "open one a/x first-last 0 0 0 0 - - 0",
		late: true, // else a slow run may log what was first and last in between
		run:  func(s *scene) { s.at(7, 40, 5); s.at(8, 60, 1); s.at(9, channel.Poison, 1) },
		want: kept{FirstLast: [3]uint64{6, 40, 60}, Poisoned: true, Given: []uint64{7, 8, 9}},
	},
	"null": {
		open: "open one a/x null 0 0 0 0 - - 0",
		run:  func(s *scene) { s.at(7, 0, 5); s.do("at 0 5 1") },
	},
	"link": {
		open:    "open one a/x link 0 0 0 0 - - 0",
		run:     func(s *scene) { s.at(7, 0, 5) },
		misused: true,
	},
	"shared": {
		open:    "open shared a/x id 0 0 0 0 - - 0",
		run:     func(s *scene) { s.at(7, 0, 5) },
		misused: true,
	},
	"0": {
		open:    "open one a/x id 0 0 0 0 - - 0",
		run:     func(s *scene) { s.do("at 0 5 1") },
		misused: true,
	},
	"2^63": {
		open:    "open one a/x id 0 0 0 0 - - 0",
		run:     func(s *scene) { s.do("at %d 5 1", uint64(1)<<63) },
		misused: true,
	},
}

func TestLanguagesTakeGivenStamps(t *testing.T) {
	for _, language := range slices.Sorted(maps.Keys(writers)) {
		for _, name := range slices.Sorted(maps.Keys(stamped)) {
			t.Run(language+"/"+name, func(t *testing.T) {
				c := stamped[name]
				s := newScene(t, language)
				if !c.late {
					s.drain()
				}
				s.do("%s", c.open)
				c.run(s)
				if misused := s.misused(); misused != c.misused {
					t.Errorf("misused: %v, want %v", misused, c.misused)
				}
				s.do("close")
				if c.late {
					s.drain()
				}
				if diff := cmp.Diff(c.want, s.end(), cmpopts.EquateEmpty(),
					cmpopts.IgnoreFields(kept{}, "Header", "Transitions")); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// misused reports whether the program's only ring has the flag FlagMisuse, which says that the
// program made a wrong call.
func (s *scene) misused() bool {
	s.t.Helper()
	files, err := ring.Files(s.rings)
	if err != nil || len(files) != 1 {
		s.t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		s.t.Fatal(err)
	}
	const flags = 4096 + 32 // ring/FORMAT.md
	return binary.LittleEndian.Uint64(b[flags:])&ring.FlagMisuse != 0
}
