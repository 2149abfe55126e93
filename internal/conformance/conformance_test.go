package conformance

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// scene is a writer, a drainer, and their directories.
type scene struct {
	*writer
	rings, logs string
	drainer     *drain.Drainer
	began       uint64 // reading of the counter at the beginning
	threads     bool   // several threads log, so counters in a shard need not rise
}

func newScene(t testing.TB, language string) *scene {
	t.Helper()
	rings, err := os.MkdirTemp("/dev/shm", "cloudprofiler-conformance")
	if err != nil {
		rings = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(rings) })
	if err := ring.SetNodeNumber(rings, 77); err != nil {
		t.Fatal(err)
	}
	return &scene{writer: startWriter(t, language, rings), rings: rings,
		logs: filepath.Join(t.TempDir(), "logs"), began: asm.Counter()}
}

func (s *scene) drain() {
	s.t.Helper()
	var err error
	if s.drainer,
		err = drain.Start(s.rings, drain.Options{Logs: s.logs, Node: "node-1"}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.drainer.Close() })
}

// setHandler changes the settings of all channels to one handler.
func (s *scene) setHandler(handler string, params channel.Params) {
	s.t.Helper()
	settings, err := channel.NewSettings(handler, params)
	if err != nil {
		s.t.Fatal(err)
	}
	if err :=
		s.drainer.SetTable(
			&handlertable.Table{Rules: []handlertable.Rule{{Channel: "*",
				Settings: settings}}}); err != nil {
		s.t.Fatal(err)
	}
	waitFor(s.t, "the new handler", func() bool {
		rings := s.drainer.Stats().Rings
		return len(rings) == 1 && rings[0].Settings == settings
	})
}

func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// kept is the content of a log, without anything that differs from run to run.
type kept struct {
	Header      header
	IDs         []uint64 // ids of events in order; sorted if there are several shards
	Links       [][2]uint64
	Drops       []drop
	Transitions []transition
	Counted     uint64
	FirstLast   [3]uint64 // count, first id, last id
	Poisoned    bool
	Given       []uint64 // stamps that the program was given, less the counter at the beginning
}

// givenStamps tells two kinds of stamps apart by their distance from the counter at the beginning.
// A stamp that an order gives is less than givenStamps cycles above that counter. A stamp that a
// program reads is later, because more than givenStamps cycles pass until the program gets its
// first order.
const givenStamps = 1000

type header struct {
	Settings   channel.Settings
	Policy     channel.Policy
	Stamp      channel.Stamp
	NodeNumber int
}

type drop struct {
	At, Count uint64
	Reason    logstore.Reason
}

type transition struct {
	From       uint64
	Generation uint64
	Handler    channel.Kind
	A, B       uint64
}

// end waits until the drainer has taken everything, and reads the only log.
func (s *scene) end() kept {
	s.t.Helper()
	waitFor(s.t, "the rings to be gone", func() bool {
		files, err := ring.Files(s.rings)
		return err == nil && len(files) == 0
	})
	if err := s.drainer.Close(); err != nil {
		s.t.Fatal(err)
	}
	ended := asm.Counter()
	segments, err := logstore.Segments(s.logs)
	if err != nil {
		s.t.Fatal(err)
	}
	r := logstore.ReadLog(segments)
	defer r.Close()
	var k kept
	last := map[int]uint64{}
	shards := map[int]bool{}
	stamp := func(shard int, counter uint64, rises bool) {
		if counter < s.began || counter > ended {
			s.t.Errorf("counter %d is not of this test: %d to %d", counter, s.began, ended)
		} else if counter < s.began+givenStamps {
			k.Given = append(k.Given, counter-s.began)
			return
		}
		if rises && counter < last[shard] {
			s.t.Errorf("counter %d follows %d", counter, last[shard])
		}
		if rises {
			last[shard] = counter
		}
	}
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			s.t.Fatal(err)
		}
		h := r.Header()
		k.Header = header{h.Settings, h.Policy, h.Stamp, h.NodeNumber}
		stamp(-1, h.Counter, false)
		for _, e := range b.Events {
			stamp(b.Shard, e.Counter, !s.threads)
			k.IDs = append(k.IDs, e.ID)
			shards[b.Shard] = true
		}
		for _, l := range b.Links {
			k.Links = append(k.Links, [2]uint64{l.Parent, l.Child})
		}
		for _, d := range b.Drops {
			k.Drops = append(k.Drops, drop{d.At, d.Count, logstore.Reason(d.Reason)})
			if logstore.Reason(d.Reason) == logstore.RingFull {
				stamp(-1, d.FirstCounter, false)
				stamp(-1, d.LastCounter, false)
			}
		}
		for _, c := range b.Transitions {
			stamp(-1, c.Counter, false)
			if b.Shard == 0 {
				k.Transitions = append(k.Transitions,
					transition{c.From, c.Generation, channel.Kind(c.Handler), c.A, c.B})
			}
		}
		for _, c := range b.Samples {
			k.Counted = c.Count
		}
		for _, f := range b.FirstLasts {
			stamp(-1, f.FirstCounter, false)
			stamp(-1, f.LastCounter, false)
			if f.Poison != 0 {
				stamp(-1, f.Poison, false)
			}
			k.FirstLast, k.Poisoned = [3]uint64{f.Count, f.FirstID, f.LastID}, f.Poison != 0
		}
	}
	if report := r.Report(); !report.Whole() || !report.Sealed || report.Duplicates+report.Overlaps+
		report.Foreign > 0 {
		s.t.Errorf("the log is not whole: %+v", report)
	}
	if len(shards) > 1 {
		slices.Sort(k.IDs)
	}
	return k
}

// ids returns count ids: first, first + step, and so on.
func ids(first, count, step uint64) (all []uint64) {
	for i := range count {
		all = append(all, first+i*step)
	}
	return all
}

func settings(t testing.TB, handler string, params channel.Params) channel.Settings {
	t.Helper()
	s, err := channel.NewSettings(handler, params)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// opened returns the transition with which a channel begins.
func opened(s channel.Settings) transition { return transition{0, 1, s.Kind, s.A, s.B} }

func TestLanguagesSayTheSame(t *testing.T) {
	for _, language := range slices.Sorted(maps.Keys(writers)) {
		t.Run(language, func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(cases)) {
				t.Run(name, func(t *testing.T) {
					s := newScene(t, language)
					cases[name].run(s)
					got, want := s.end(), cases[name].want(t)
					// Do not compare the settings at the start of the last segment. They may differ
					// from run to run.
					got.Header.Settings, want.Header.Settings = channel.Settings{},
						channel.Settings{}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Error(diff)
					}
				})
			}
		})
	}
}

// Both libraries refuse the same orders.
func TestLanguagesRefuseTheSame(t *testing.T) {
	for _, order := range []string{
		"open one nopoint id 0 0 0 0 - - 0",
		"open one a#1024/x id 0 0 0 0 - - 0",
		"open one a/x ids 0 0 0 0 - - 0",
		"open one a/x downsample 0 0 0 0 - - 0",
		"open one a/x xoy 0 3 2 0 - - 0",
		"open one a/x xoy 0 0 0 0 - - 0",
		"open one a/x counter 0 0 0 999999 - - 0",
		"open one a/x id 0 0 0 0 wait - 0",
		"open one a/x id 0 0 0 0 - tsc 0",
		"open one a/x id 0 0 0 0 - - 8",
		"open shared a/x id 0 0 0 0 overwrite - 0",
		"open shared a/x id 0 0 0 0 - rdtsc 0",
	} {
		for language := range writers {
			s := newScene(t, language)
			if answer := s.ask("%s", order); answer == "ok" {
				t.Errorf("%s: %q was accepted", language, order)
			}
			if files, _ := ring.Files(s.rings); len(files) > 0 {
				t.Errorf("%s: %q left %v", language, order, files)
			}
		}
	}
}

// If there is no drainer, a program waits for one second in all, however many channels it has.
func TestLanguagesWaitASecondInAll(t *testing.T) {
	for language := range writers {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, language)
			var waits []time.Duration
			for i := range 6 {
				s.do("open one a#%d/x id 0 0 0 0 block - 256", i)
				begin := time.Now()
				s.do("log 0 100")
				waits = append(waits, time.Since(begin))
			}
			// If each channel waited separately, every log call would take a second. On a busy
			// machine some of them do.
			if waits[0] < time.Second || slices.Min(waits) >= time.Second {
				t.Errorf("six channels waited %v, want a second in all", waits)
			}
		})
	}
}

// A forked child of a C program logs nothing, and does not keep the ring alive after its parent's
// death.
func TestForkInC(t *testing.T) {
	s := newScene(t, "c")
	s.do("open one a/x id 0 0 0 0 - - 0")
	s.do("log 0 10")
	s.do("fork 100")
	s.do("log 10 10")
	// The child outlives its parent, because it still waits for orders from the test.
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.cmd.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	s.drain()
	if got := s.end(); !slices.Equal(got.IDs, ids(0, 20, 1)) {
		t.Errorf("ids %d", got.IDs)
	}
}

// The languages make rings with the same bytes, except those bytes that differ from ring to ring.
func TestLanguagesMakeTheSameFile(t *testing.T) {
	images := map[string][]byte{}
	for language := range writers {
		s := newScene(t, language)
		s.do("open one a#7/x xoy 0 3 9 0 drop - 256")
		s.do("log 0 400")
		files, err := ring.Files(s.rings)
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		if images[language], err = os.ReadFile(files[0]); err != nil {
			t.Fatal(err)
		}
	}
	differ := map[string][2]int{ // bytes that differ from ring to ring: from, to
		"incarnation": {32, 48}, "counter, UTC and process": {64, 92}, "checksum": {248, 252},
		"journal's counter": {4096 + 512 + 40, 4096 + 512 + 48},
		"drops' counters":   {4096 + 1536 + 16, 4096 + 1536 + 32},
	}
	for i := 8192; i < len(images["go"]); i += ring.RecordBytes {
		differ[fmt.Sprint("counter of record ", i)] = [2]int{i, i + 8}
	}
	for _, b := range images {
		for _, span := range differ {
			clear(b[span[0]:min(span[1], len(b))])
		}
	}
	for language, b := range images {
		if len(b) != len(images["go"]) {
			t.Fatalf("%s: %d bytes", language, len(b))
		}
		for i := range b {
			if b[i] != images["go"][i] {
				t.Errorf("%s: byte %d is %#x, in Go %#x", language, i, b[i], images["go"][i])
			}
		}
	}
	if len(images) < 2 {
		t.Fatal(errors.New("nothing was compared"))
	}
}
