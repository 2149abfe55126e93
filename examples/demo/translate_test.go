package demo

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// Translation changes every reading in every kind of row, and nothing else.
func TestTranslateLogs(t *testing.T) {
	r := seed.Random(t)
	physical := virtual.Physical{
		Counter: 1 << 50, Realtime_ns: 1_700_000_000e9, Hz: 2_600_000_000,
	}
	config := virtual.Config(r, "n", physical, vnode.Walk, 0.5, 10*time.Minute).Counter
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
	// blocks makes one block of each kind. It passes each counter reading through the function v.
	blocks := func(v func(uint64) uint64) []logstore.Block {
		at := func(n uint64) uint64 { return v(1<<50 + n*1_000_000_007) }
		return []logstore.Block{
			{Events: []logstore.Event{
				{Counter: at(1), ID: 7}, {Counter: at(2), ID: channel.Poison},
			}},
			{Links: []logstore.Link{{Parent: 1, Child: 2}}},
			{Samples: []logstore.Sample{{Counter: at(3), Count: 9}}},
			{FirstLasts: []logstore.FirstLast{{}, {
				Count:        3,
				FirstCounter: at(4), FirstID: 1,
				LastCounter: at(5), LastID: 2,
				Poison: at(6),
			}}},
			{Transitions: []logstore.Transition{{
				From: 1, Generation: 2, Handler: uint64(channel.Null), Counter: at(7), Dropped: 1,
			}}},
			{Drops: []logstore.Drop{{
				Of: uint64(logstore.Events), Reason: uint64(logstore.RingFull), At: 1, Count: 4,
				FirstCounter: at(8), LastCounter: at(9),
			}, {
				Of: uint64(logstore.Events), Reason: uint64(logstore.NeverWritten), At: 2, Count: 1,
			}}},
			{ReturnTrips: []logstore.ReturnTrip{{ID: 1, Sent: at(10), Acknowledged: at(11)}}},
			{NTPs: []logstore.NTP{{
				CounterLo: at(12), CounterHi: at(13), Offset_ns: -5, Stratum: 3,
			}}},
		}
	}
	dir := filepath.Join(t.TempDir(), "n")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	header := logstore.Header{
		Node: "n", Epoch: "e", Channel: name, Settings: settings,
		Incarnation: logstore.Incarnation{1}, Counter: 1 << 50, UTCHi_ns: 1,
	}
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
		if got.Kind() != want.Kind() || got.Len() != want.Len() || got.First != want.First {
			t.Fatalf("%d rows of %v, want %d of %v",
				got.Len(), got.Kind(), want.Len(), want.Kind())
		}
		nilIfEmpty := cmpopts.EquateEmpty()
		for what, rows := range map[string][2]any{
			"events":         {want.Events, got.Events},
			"links":          {want.Links, got.Links},
			"samples":        {want.Samples, got.Samples},
			"first and last": {want.FirstLasts, got.FirstLasts},
			"transitions":    {want.Transitions, got.Transitions},
			"drops":          {want.Drops, got.Drops},
			"return trips":   {want.ReturnTrips, got.ReturnTrips},
			"NTP":            {want.NTPs, got.NTPs},
		} {
			if diff := cmp.Diff(rows[0], rows[1], nilIfEmpty); diff != "" {
				t.Errorf("%s, -want +got:\n%s", what, diff)
			}
		}
	}
	if _, err := reader.Next(); err != io.EOF || !reader.Report().Sealed {
		t.Errorf("after the last block: %v, sealed %v", err, reader.Report().Sealed)
	}
}

// The checker counts an interval as right if the true value is one of its two ends, and as wrong if
// the true value is one cycle beyond an end.
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
		spans := newSpans(false)
		physical := pointEvents{"a/end": {{1, 1000}, {7, 2000}}, "b/start": {{7, 2500}}}
		k, err := newChecker(physical, nil, c, spans.take)
		if err != nil {
			t.Fatal(err)
		}
		row := analysis.DurationRow{
			ID: 7, Kind: "transfer",
			From: "a/end", To: "b/start", FromNode: "A", ToNode: "B",
			Duration: tscratio.Duration{Elapsed: test.span},
		}
		if err := k.checkDuration(row); err != nil {
			t.Fatal(err)
		}
		if h := spans.order[0]; h.Outside != test.outside || h.Crosses != 1 || h.Truth[0] != 500 {
			t.Errorf("%s: %+v", name, h)
		}
		if row.ID = 1; k.checkDuration(row) == nil {
			t.Error("a tuple that no log has at b/start was accepted")
		}
	}
}
