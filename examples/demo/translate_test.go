package demo

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// Every reading of every kind of row becomes the virtual one, and nothing else changes.
func TestTranslateLogs(t *testing.T) {
	r := seed.Random(t)
	config := virtual.Config(r, "n", virtual.Physical{Counter: 1 << 50, Realtime_ns: 1_700_000_000e9, Hz: 2_600_000_000}, vnode.Walk, 0.5, 10*time.Minute).Counter
	counter, err := vnode.NewCounter(config)
	if err != nil {
		t.Fatal(err)
	}
	truth, err := vnode.NewTruth(config)
	if err != nil {
		t.Fatal(err)
	}
	name, err := channel.ParseName("a#1/start")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := channel.NewSettings("buffered", nil)
	if err != nil {
		t.Fatal(err)
	}
	// blocks are one of each kind, their readings as v shows them.
	blocks := func(v func(uint64) uint64) []logstore.Block {
		at := func(n uint64) uint64 { return v(1<<50 + n*1_000_000_007) }
		return []logstore.Block{
			{Events: []logstore.Event{{Counter: at(1), ID: 7}, {Counter: at(2), ID: channel.Poison}}},
			{Links: []logstore.Link{{Parent: 1, Child: 2}}},
			{Samples: []logstore.Sample{{Counter: at(3), Count: 9}}},
			{FirstLasts: []logstore.FirstLast{{}, {Count: 3, FirstCounter: at(4), FirstID: 1, LastCounter: at(5), LastID: 2, Poison: at(6)}}},
			{Transitions: []logstore.Transition{{From: 1, Generation: 2, Handler: uint64(channel.Null), Counter: at(7), Dropped: 1}}},
			{Drops: []logstore.Drop{
				{Of: uint64(logstore.Events), Reason: uint64(logstore.RingFull), At: 1, Count: 4, FirstCounter: at(8), LastCounter: at(9)},
				{Of: uint64(logstore.Events), Reason: uint64(logstore.NeverWritten), At: 2, Count: 1},
			}},
			{ReturnTrips: []logstore.ReturnTrip{{ID: 1, Sent: at(10), Acknowledged: at(11)}}},
			{NTPs: []logstore.NTP{{CounterLo: at(12), CounterHi: at(13), Offset_ns: -5, Stratum: 3}}},
		}
	}
	dir := filepath.Join(t.TempDir(), "n")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	header := logstore.Header{Node: "n", Epoch: "e", Channel: name, Settings: settings, Incarnation: logstore.Incarnation{1}, Counter: 1 << 50, UTCHi_ns: 1}
	path := filepath.Join(dir, logstore.SegmentName(name, header.Incarnation, 0))
	w, err := logstore.Create(nil, path, header)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks(func(p uint64) uint64 { return p }) {
		b.Incarnation = header.Incarnation
		if err := w.Append(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Seal(); err != nil {
		t.Fatal(err)
	}
	w.Close()

	if err := translateLogs(dir, counter); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, err := logstore.NewReader(file, path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := reader.Header().Counter, truth.Reading(1<<50); got != want {
		t.Errorf("the header's reading is %d, want %d", got, want)
	}
	for _, want := range blocks(truth.Reading) {
		want.Incarnation = header.Incarnation
		got, err := reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		same := func(what string, got, want any) {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s:\n%s", what, diff)
			}
		}
		if got.Kind() != want.Kind() || got.Len() != want.Len() || got.First != want.First {
			t.Fatalf("%d rows of %v, want %d of %v", got.Len(), got.Kind(), want.Len(), want.Kind())
		}
		same("events", append([]logstore.Event(nil), got.Events...), want.Events)
		same("links", append([]logstore.Link(nil), got.Links...), want.Links)
		same("samples", append([]logstore.Sample(nil), got.Samples...), want.Samples)
		same("first and last", append([]logstore.FirstLast(nil), got.FirstLasts...), want.FirstLasts)
		same("transitions", append([]logstore.Transition(nil), got.Transitions...), want.Transitions)
		same("drops", append([]logstore.Drop(nil), got.Drops...), want.Drops)
		same("return trips", append([]logstore.ReturnTrip(nil), got.ReturnTrips...), want.ReturnTrips)
		same("NTP", append([]logstore.NTP(nil), got.NTPs...), want.NTPs)
	}
	if _, err := reader.Next(); err != io.EOF || !reader.Report().Sealed {
		t.Errorf("behind the last block: %v, sealed %v", err, reader.Report().Sealed)
	}
}

// A duration is inside up to its ends, and outside beyond them.
func TestChecker(t *testing.T) {
	c := vnode.DefaultConfig().Counter
	for name, test := range map[string]struct {
		span    tscratio.Elapsed
		outside int
	}{
		"exact":     {tscratio.Elapsed{Lo: 500, Hi: 500}, 0},
		"at_its_lo": {tscratio.Elapsed{Lo: 500, Hi: 900}, 0},
		"at_its_hi": {tscratio.Elapsed{Lo: -5, Hi: 500}, 0},
		"below":     {tscratio.Elapsed{Lo: 501, Hi: 900}, 1},
		"above":     {tscratio.Elapsed{Lo: -5, Hi: 499}, 1},
	} {
		hops := newHops(false)
		k, err := newChecker(physicals{"a/end": {{1, 1000}, {7, 2000}}, "b/start": {{7, 2500}}}, c, hops.take)
		if err != nil {
			t.Fatal(err)
		}
		row := analysis.DurationRow{ID: 7, From: "a/end", To: "b/start", FromNode: "A", ToNode: "B", Kind: "transfer", Duration: tscratio.Duration{Elapsed: test.span}}
		if err := k.duration(row); err != nil {
			t.Fatal(err)
		}
		if h := hops.order[0]; h.Outside != test.outside || h.Crosses != 1 || h.Truth[0] != 500 {
			t.Errorf("%s: %+v", name, h)
		}
		if row.ID = 1; k.duration(row) == nil {
			t.Error("a tuple that no log has at b/start is taken")
		}
	}
}
