package drain

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// However many rings a user's programs open, the drainer keeps some descriptors and mappings for
// everything else.
func TestCapacityKeepsSomeBack(t *testing.T) {
	for _, tc := range []struct {
		files, maps uint64
		rings       int
		why         string
	}{
		{4096, 65530, 1792, "LimitNOFILE"},
		{1024, 65530, 384, "LimitNOFILE"},
		{524288, 65530, maxRings, "holds no more"},
		{524288, 16000, 12000, "max_map_count"},
		{1 << 30, 1 << 30, maxRings, "holds no more"},
		{20, 65530, 7, "LimitNOFILE"},
		{2, 65530, 1, "LimitNOFILE"},
		{0, 65530, 1, "holds no more"},
	} {
		c := newCapacity(tc.files, tc.maps)
		if c.rings != tc.rings || !strings.Contains(c.why, tc.why) {
			t.Errorf("%d files, %d mappings: %d rings, %s; want %d", tc.files, tc.maps, c.rings,
				c.why, tc.rings)
		}
	}
	if c, err := systemCapacity(); err != nil || c.rings < 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestRingsBeyondCapacityAreLeftAlone(t *testing.T) {
	for name, room := range map[string]capacity{
		"rings":    {rings: 3, mapped: maxMapped, why: "a test wants it"},
		"mappings": {rings: 100, mapped: 3 * 8192},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{})
			r.d.room = room
			var channels []*handlers.Channel
			for i := range 10 {
				channels = append(channels, r.open(fmt.Sprintf("a/x%d", i), handlers.Options{
					Policy: "drop", Buffer: "1KiB",
				}))
				logMany(channels[i], 0, 10)
			}
			before := openFiles(t)
			r.runFor(3 * time.Second)
			s := r.d.Stats()
			if len(s.Rings) != 3 || s.Left != 7 || !errors.Is(s.LeftWhy, ErrFull) {
				t.Errorf("%d rings, %d left: %v", len(s.Rings), s.Left, s.LeftWhy)
			}
			if took := openFiles(t) - before; took > 3*filesOfRing {
				t.Errorf("%d descriptors for three rings", took)
			}
			if len(r.noticed) != 1 || !errors.Is(r.noticed[0], ErrFull) {
				t.Errorf("said %q", r.noticed)
			}
			for _, c := range channels {
				c.Close()
			}
			r.runFor(10 * time.Second)
			if s := r.d.Stats(); s.Finished != 10 || s.Left != 0 || s.LeftWhy != nil ||
				s.Total.Rows < 100 {
				t.Errorf("%d finished, %d left, %d rows", s.Finished, s.Left, s.Total.Rows)
			}
			if r.d.mapped != 0 {
				t.Errorf("%d bytes are mapped of no ring", r.d.mapped)
			}
		})
	}
}

// If a directory is full of files that are not rings, the drainer describes at most maxAside of
// them, and only counts the others.
func TestManyRingsAreSetAside(t *testing.T) {
	const many = maxAside + 200
	r := newRig(t, Options{})
	for i := range many {
		path := filepath.Join(r.rings, fmt.Sprintf("x%d.ring", i))
		if err := os.WriteFile(path, []byte("no ring"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.runFor(3 * time.Second)
	if s := r.d.Stats(); len(s.Rings) != maxAside || s.SetAside != many ||
		len(r.noticed) != maxAside+1 {
		t.Errorf("%d described of %d, said %d times", len(s.Rings), s.SetAside, len(r.noticed))
	}
	for i := range many {
		os.Remove(filepath.Join(r.rings, fmt.Sprintf("x%d.ring", i)))
	}
	r.runFor(3 * time.Second)
	if s := r.d.Stats(); len(s.Rings) != 0 || s.SetAside != 0 {
		t.Errorf("%d described of %d that are gone", len(s.Rings), s.SetAside)
	}
}

// Processes in two containers can have the same process id, and the drainer distinguishes them. In
// this test, one of the two is this process. The other one does not exist, but the first ring names
// it.
func TestProcessesOfTwoNamespaces(t *testing.T) {
	r := newRig(t, Options{MaxProcessRings: 1})
	other := r.open("a/other", handlers.Options{})
	forgeIdentity(t, other.Path(), 232, word(1))
	r.open("a/x", handlers.Options{})
	r.advanceClock(0)
	if s := r.d.Stats(); len(s.Rings) != 2 || len(s.Processes) != 2 ||
		s.Processes[0].PIDNamespace != 1 {
		t.Fatalf("rings %+v of processes %+v", s.Rings, s.Processes)
	}
	r.open("a/y", handlers.Options{})
	r.runFor(2 * time.Second)
	if s := r.d.Stats(); len(s.Rings) != 2 || s.Left != 1 ||
		!strings.Contains(s.LeftWhy.Error(), "of PID namespace") {
		t.Errorf("%d rings, %d left: %v", len(s.Rings), s.Left, s.LeftWhy)
	}
}

// However many rings one process opens, there is room for later rings of another process. That
// holds even if each ring of the first process claims to belong to a different process.
func TestRoomIsShared(t *testing.T) {
	const rings = 100
	for name, lies := range map[string]bool{
		"one process": false, "one that says it is many": true,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{})
			r.d.room.rings = rings
			open := func(i int) *handlers.Channel {
				return r.open(fmt.Sprintf("a/x%d", i), handlers.Options{
					Policy: "drop", Buffer: "1KiB",
				})
			}
			for i := range 2 * rings {
				c := open(i)
				if lies {
					forgeIdentity(t, c.Path(), 88,
						binary.NativeEndian.AppendUint32(nil, uint32(1<<24+i)))
				}
			}
			r.runFor(3 * time.Second)
			s := r.d.Stats()
			if len(s.Rings) != rings || s.Left != rings || !errors.Is(s.LeftWhy, ErrFull) {
				t.Errorf("%d rings, %d left: %v", len(s.Rings), s.Left, s.LeftWhy)
			}
			if s.Finished > 0 || len(r.noticed) != 1 {
				t.Errorf("%d finished, said %q", s.Finished, r.noticed)
			}
			// The ring names a process in another PID namespace, so the drainer cannot find out
			// which files that process has open.
			other := open(2 * rings)
			forgeIdentity(t, other.Path(), 232, word(1))
			logMany(other, 0, 10)
			r.runFor(2 * time.Second)
			if got := r.statsOf(fmt.Sprintf("a/x%d", 2*rings)); got.Events != 10 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A process opens its rings one after the other. For each ring, the drainer checks again which
// files the process has open, so no ring is attributed to another process.
func TestLaterRingsAreVouchedFor(t *testing.T) {
	r := newRig(t, Options{})
	r.d.room.rings = 10
	for i := range 7 {
		r.open(fmt.Sprintf("a/x%d", i), handlers.Options{Buffer: "1KiB"})
		r.runFor(2 * time.Second)
	}
	if s := r.d.Stats(); len(s.Processes) != 1 || s.Processes[0].ProcessID != os.Getpid() {
		t.Errorf("processes %+v", s.Processes)
	}
}

func TestLevel(t *testing.T) {
	for _, tc := range []struct {
		wants []int
		room  int
		want  int
	}{
		{[]int{10}, 5, 5}, {[]int{10}, 10, math.MaxInt}, {[]int{100, 4}, 50, 46},
		{[]int{100, 4, 100}, 50, 23},
		{[]int{7, 7, 7}, 20, 6}, {[]int{1, 1, 9, 9}, 3, 1}, {[]int{2, 2, 2}, 2, 1},
		{nil, 5, math.MaxInt},
	} {
		if got := fairShare(slices.Clone(tc.wants), tc.room); got != tc.want {
			t.Errorf("%v in %d: %d, want %d", tc.wants, tc.room, got, tc.want)
		}
	}
}

// The drainer gives up a ring so that another process has room, and drains it again later. In the
// end the ring's log is complete, even if the log directory has changed meanwhile. After the
// change, nothing is added to the old log directory.
func TestARingThatYields(t *testing.T) {
	r := newRig(t, Options{Workers: 1})
	first := r.logs
	r.d.room.rings = 2
	var own []*handlers.Channel
	for i := range 2 {
		own = append(own, r.open(fmt.Sprintf("own/x%d", i), handlers.Options{
			Handler: "id", Buffer: "16KiB",
		}))
		logMany(own[i], 0, 100)
	}
	r.runFor(time.Second)
	other := r.open("other/x", handlers.Options{Handler: "id", Buffer: "16KiB"})
	forgeIdentity(t, other.Path(), 232, word(1))
	r.runFor(3 * time.Second)
	if s := r.d.Stats(); len(s.Rings) != 2 || s.Left != 1 || r.statsOf("other/x").Path == "" {
		t.Fatalf("%d rings, %d left, of processes %+v", len(s.Rings), s.Left, s.Processes)
	}
	second := filepath.Join(t.TempDir(), "second")
	r.setLogs(second)
	before := contents(t, first)
	for _, c := range own {
		logMany(c, 100, 150)
	}
	r.runFor(time.Second)
	other.Close()
	r.runFor(3 * time.Second)
	for _, c := range own {
		logMany(c, 150, 200)
		c.Close()
	}
	r.runFor(3 * time.Second)
	if s := r.d.Stats(); s.Finished != 3 || s.Left != 0 || s.Total.Missing > 0 || s.SetAside > 0 {
		t.Errorf("%d finished, %d left, %d missing: %q", s.Finished, s.Left, s.Total.Missing,
			r.noticed)
	}
	for name, b := range contents(t, first) {
		if !bytes.Equal(b, before[name]) {
			t.Errorf("%s has changed in the directory that was left", name)
		}
	}
	var segments []logstore.Segment
	for _, dir := range []string{first, second} {
		all, err := logstore.Segments(dir)
		if err != nil {
			t.Fatal(err)
		}
		segments = append(segments, all...)
	}
	for i := range own {
		name := fmt.Sprintf("own/x%d", i)
		k, err := readLog(slices.DeleteFunc(slices.Clone(segments), func(s logstore.Segment) bool {
			return s.Channel.String() != name
		}))
		if err != nil {
			t.Fatal(err)
		}
		k.checkIntact(t)
		wantIDs(t, k.events[0], 200)
	}
}
