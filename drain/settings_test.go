package drain

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// tableOf returns a handler table with these rules.
func tableOf(t *testing.T, rules ...string) *handlertable.Table {
	t.Helper()
	text := "version: 1\nrules:\n"
	for _, r := range rules {
		text += "- {" + r + "}\n"
	}
	table, err := handlertable.Parse([]byte(text), "test")
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTableIsAppliedToRingsThatAppearAndThatAreThere(t *testing.T) {
	r := newRig(t, Options{Table: tableOf(t, "channel: a/*, handler: id")})
	settings := func(name, want string) {
		t.Helper()
		if got := r.statsOf(name).Settings.String(); got != want {
			t.Errorf("%s has handler %s, want %s", name, got, want)
		}
	}
	a := r.open("a/x", handlers.Options{Handler: "xoy", Params: channel.Params{"x": 1, "y": 2}})
	b := r.open("b/x", handlers.Options{Handler: "counter"})
	r.runFor(2 * checkPeriod)
	settings("a/x", "id")
	settings("b/x", "counter period=1s")
	for range 5 {
		a.Log(1) // xoy would discard this event
		b.Log(1)
	}
	r.d.SetTable(
		tableOf(t, "node: node-2, channel: '*', handler: null", "channel: '*', handler: buffered"))
	r.runFor(2 * checkPeriod)
	settings("a/x", "buffered")
	settings("b/x", "buffered")
	for range 7 {
		a.Log(3)
		b.Log(3)
	}
	// If no rule matches a channel, the channel has the settings of its program, even after another
	// drainer takes over.
	r.killDrainer()
	r.startRig(Options{Table: tableOf(t, "channel: other/x, handler: null")})
	r.runFor(2 * checkPeriod)
	settings("a/x", "xoy x=1 y=2")
	settings("b/x", "counter period=1s")
	a.Log(5)
	b.Log(5)
	// Without a table the channels keep their settings.
	r.d.SetTable(tableOf(t, "channel: a/x, handler: null"))
	r.runFor(2 * checkPeriod)
	a.Log(6)
	r.d.SetTable(nil)
	r.runFor(2 * checkPeriod)
	settings("a/x", "null")
	a.Close()
	b.Close()
	r.runFor(300 * time.Millisecond)
	logs := readLogs(t, r.logs)
	logs["a/x"].checkIntact(t)
	logs["b/x"].checkIntact(t)
	type step struct {
		from uint64
		kind channel.Kind
	}
	for name, want := range map[string][]step{
		"a/x": {{0, channel.XoY}, {0, channel.Identity}, {5, channel.Buffered}, {12, channel.XoY},
			{12, channel.Null}},
		"b/x": {{0, channel.Counter}, {0, channel.Buffered}, {7, channel.Counter}},
	} {
		rows := logs[name].transitions[0]
		if len(rows) != len(want) {
			t.Fatalf("%s: %+v", name, rows)
		}
		for i, w := range want {
			if rows[i].From != w.from || rows[i].Settings().Kind != w.kind {
				t.Errorf("%s: transition %d is %+v, want %+v", name, i, rows[i], w)
			}
		}
	}
	if n := logs["a/x"].countRows(); n != 12 {
		t.Errorf("a/x has %d events, want 12", n)
	}
	if samples := logs["b/x"].samples; samples[len(samples)-1].Count != 6 {
		t.Errorf("b/x: %+v, want a count of 6 at last", samples)
	}
}

func TestTableFileIsWatched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("version: 1\nrules: []\n")
	r := newRig(t, Options{TableFile: path})
	c := r.open("a/x", handlers.Options{})
	r.runFor(time.Second)
	write("version: 1\nrules:\n- {channel: a/x, handler: id}\n")
	r.runFor(tablePoll + 2*checkPeriod)
	if got := r.statsOf("a/x").Settings.Kind; got != channel.Identity {
		t.Errorf("%s, want id", got)
	}
	write("version: 1\nrules:\n- {channel: a/x, handler: null}\n- {channel\n")
	r.runFor(time.Second)
	if got := r.statsOf("a/x").Settings.Kind; got != channel.Identity {
		t.Errorf("%s after a bad table, want id", got)
	}
	if err := r.d.Stats().Table; !errors.Is(err, handlertable.ErrTable) {
		t.Errorf("stats say %v", err)
	}
	if len(r.noticed) != 1 {
		t.Errorf("noticed %v, want it once", r.noticed)
	}
	write("version: 1\nrules:\n- {channel: a/x, handler: null}\n")
	r.runFor(time.Second)
	if got := r.statsOf("a/x").Settings.Kind; got != channel.Null || r.d.Stats().Table != nil {
		t.Errorf("%s, want null; %v", got, r.d.Stats().Table)
	}
	c.Close()
}

func TestTableThatAChannelCannotTake(t *testing.T) {
	r := newRig(t, Options{
		Table: tableOf(t, "channel: a/link, handler: id", "channel: a/log, handler: link"),
	})
	link := r.open("a/link", handlers.Options{Handler: "link"})
	log := r.open("a/log", handlers.Options{Handler: "buffered"})
	r.runFor(time.Second)
	link.Link(1, 2)
	log.Log(1)
	for _, name := range []string{"a/link", "a/log"} {
		if s := r.statsOf(name); !errors.Is(s.Refused, ErrRefused) || s.Rejected {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if len(r.noticed) != 2 {
		t.Errorf("noticed %v, want each once", r.noticed)
	}
	r.d.SetTable(tableOf(t, "channel: '*', handler: null"))
	r.runFor(time.Second)
	link.Link(1, 2)
	log.Log(1)
	r.runFor(time.Second)
	for _, name := range []string{"a/link", "a/log"} {
		if s := r.statsOf(name); s.Refused != nil || s.Settings.Kind != channel.Null {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// However often the table changes while the log cannot be written, the log finally says which
// settings applied to which rows.
func TestJournalIsNeverLost(t *testing.T) {
	disk := &fullDisk{logstore.OS{}, 1 << 40}
	r := newRig(t, Options{FileSystem: disk})
	c := r.open("a/x", handlers.Options{Handler: "id"})
	r.runFor(2 * checkPeriod)
	disk.space = 0
	tables := []*handlertable.Table{
		tableOf(t, "channel: '*', handler: null"), tableOf(t, "channel: '*', handler: counter"),
	}
	for i := range uint64(100) {
		r.d.SetTable(tables[i%2])
		r.runFor(2 * retryLast)
		c.Log(i)
	}
	disk.space = 1 << 40
	r.runFor(time.Second)
	c.Log(100)
	c.Close()
	r.runFor(time.Second)
	log := readLogs(t, r.logs)["a/x"]
	log.checkIntact(t)
	rows := log.transitions[0]
	if len(rows) < 10 {
		t.Fatalf("%+v", rows)
	}
	for i, row := range rows {
		if row.Skipped != 0 || i > 0 && row.Generation != rows[i-1].Generation+1 {
			t.Errorf("transition %d: %+v", i, row)
		}
	}
}

// While programs log, one table replaces another. Each event is in the log once, and the journal
// entries in the log say which handler kept which events.
func TestTableChangesUnderLoad(t *testing.T) {
	rings, logs := t.TempDir(), t.TempDir()
	d, err := Start(rings, Options{Logs: logs, Node: "node-1"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := handlers.Open("a/x", handlers.Options{Dir: rings, Handler: "buffered"})
	if err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan bool), make(chan bool)
	var calls atomic.Uint64
	go func() {
		defer close(done)
		for id := uint64(0); ; id++ {
			select {
			case <-stop:
				return
			default:
				c.Log(id)
				calls.Store(id + 1)
			}
		}
	}()
	tables := []*handlertable.Table{
		tableOf(t, "channel: '*', handler: id"),
		tableOf(t, "channel: '*', handler: xoy, params: {x: 1, y: 7}"),
		tableOf(t, "channel: '*', handler: null"),
		tableOf(t, "channel: '*', handler: buffered"),
	}
	for i := range 8 {
		d.SetTable(tables[i%4])
		changed := time.Now()
		want, _ := tables[i%4].For("node-1", name(t, "a/x"))
		for {
			stats := d.Stats().Rings
			if len(stats) == 1 && stats[0].Settings == want.Settings {
				break
			}
			if time.Since(changed) > 3*time.Minute {
				t.Fatalf("not in force: %+v", stats)
			}
			time.Sleep(time.Millisecond)
		}
		before := calls.Load() // the program notes the change only in a later call
		testimony.WaitFor(t, "calls under the new table", func() bool {
			return calls.Load() > before+10_000
		})
	}
	close(stop)
	<-done
	c.Close()
	testimony.WaitFor(t, "the ring to be finished", func() bool { return d.Stats().Finished == 1 })
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	log := readLogs(t, logs)["a/x"]
	log.checkIntact(t)
	rows, at := log.transitions[0], -1
	if len(rows) != 9 {
		t.Fatalf("%d transitions, want 9: %+v", len(rows), rows)
	}
	var last uint64
	for i, e := range log.events[0] {
		for at+1 < len(rows) && rows[at+1].From <= uint64(i) {
			at++
		}
		settings := rows[at].Settings()
		if i > 0 && e.ID <= last {
			t.Fatalf("event %d has id %d after %d", i, e.ID, last)
		}
		switch settings.Kind {
		case channel.XoY:
			if e.ID%settings.B >= settings.A {
				t.Fatalf("event %d, id %d, is kept under %s", i, e.ID, settings)
			}
		case channel.Null:
			t.Fatalf("event %d, id %d, is kept under %s", i, e.ID, settings)
		default:
			if i > 0 && uint64(i) > rows[at].From && e.ID != last+1 {
				t.Fatalf("event %d has id %d after %d under %s", i, e.ID, last, settings)
			}
		}
		last = e.ID
	}
}

// If no rule matches a channel, the channel has the settings of its program, whatever happened to
// its journal and its earlier logs.
func TestWithoutARuleTheProgramsOwnSettingsHold(t *testing.T) {
	own := handlers.Options{Handler: "xoy", Params: channel.Params{"x": 1, "y": 2}}
	for name, interfere := range map[string]func(r *rig, c *handlers.Channel){
		"seen before its journal has an entry": func(_ *rig, c *handlers.Channel) {
			patchFile(t, c.Path(), atJournal, word(0))
		},
		"changed so often that every slot was used": func(r *rig, c *handlers.Channel) {
			for i := range 20 {
				r.d.SetTable(tableOf(t,
					[]string{"channel: '*', handler: id", "channel: '*', handler: buffered"}[i%2]))
				r.runFor(2 * checkPeriod)
				c.Log(uint64(i))
			}
			r.killDrainer()
			os.RemoveAll(r.logs)
			r.startRig(Options{Table: tableOf(t, "channel: '*', handler: id")})
		},
		"its first log is gone": func(r *rig, c *handlers.Channel) {
			r.runFor(2 * checkPeriod)
			r.killDrainer()
			os.RemoveAll(r.logs)
			r.startRig(Options{Table: tableOf(t, "channel: '*', handler: id")})
		},
	} {
		r := newRig(t, Options{Table: tableOf(t, "channel: '*', handler: id")})
		c := r.open("a/x", own)
		interfere(r, c)
		r.runFor(2 * checkPeriod)
		if got := r.statsOf("a/x").Settings.Kind; got == channel.XoY {
			t.Errorf("%s: the rule is not in force", name)
		}
		r.d.SetTable(&handlertable.Table{})
		r.runFor(2 * checkPeriod)
		if got := r.statsOf("a/x").Settings.String(); got != "xoy x=1 y=2" {
			t.Errorf("%s: handler %s without a rule, want what the program chose", name, got)
		}
		c.Close()
	}
}
