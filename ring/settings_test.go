package ring

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

// settingsOf makes settings with parameters that depend on each other, so that a test recognizes a
// mixture of two settings.
func settingsOf(n uint64) channel.Settings {
	if n%3 == 0 {
		return channel.Settings{Kind: channel.Downsample, A: n + 1}
	}
	return channel.Settings{Kind: channel.XoY, A: n, B: 2*n + 1}
}

func TestApply(t *testing.T) {
	p := newRing(t)
	c := drain(t, p.Path)
	_, last := p.Settings()
	if last.Generation() != 1 || last.slot() != 0 {
		t.Fatalf("a fresh ring has word %#x", uint64(last))
	}
	for n := range uint64(5 * slots) {
		want := settingsOf(n)
		before := p.header.control.slot
		w, err := c.Apply(want)
		if err != nil {
			t.Fatal(err)
		}
		if before[last.slot()] != p.header.control.slot[last.slot()] {
			t.Fatalf("generation %d wrote the slot that was pointed to", w.Generation())
		}
		if w.Generation() <= last.Generation() || w.slot() >= slots || w.Kind() != want.Kind {
			t.Fatalf("word %#x after %#x", uint64(w), uint64(last))
		}
		for name, load := range map[string]func() (channel.Settings, Word){
			"program": p.Settings,
			"reader": func() (channel.Settings, Word) {
				s, w, err := c.Settings()
				must(t, err)
				return s, w
			},
		} {
			if got, gotWord := load(); got != want || gotWord != w {
				t.Fatalf("%s reads %v under %#x, want %v under %#x", name, got, uint64(gotWord),
					want, uint64(w))
			}
		}
		last = w
	}
	// Another drainer continues with higher generations.
	if w, err := drain(t, p.Path).Apply(settingsOf(1)); err != nil ||
		w.Generation() <= last.Generation() {
		t.Errorf("%v after %v, %v", w, last, err)
	}
	if _,
		err := c.Apply(channel.Settings{Kind: channel.XoY}); !errors.Is(err, channel.ErrParameter) {
		t.Errorf("bad settings: %v", err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// If somebody overwrites the switching word, each change still gets a larger generation, until
// there is no larger one.
func TestApplyOverAHostileWord(t *testing.T) {
	for _, word := range []uint64{0, 1, 1 << 16, 0xFF, 0x0500FF, 7, 0xFFFF,
		NewWordBits(1<<40, 0xFF, 0xFF), NewWordBits(8, 5, 1), NewWordBits(maxGeneration-2, 5, 5)} {
		p := newRing(t)
		c := drain(t, p.Path)
		first, err := c.Apply(settingsOf(1))
		must(t, err)
		*p.Word() = word
		w, err := c.Apply(settingsOf(2))
		if err != nil || w.Generation() <= first.Generation() ||
			w.Generation() <= Word(word).Generation() || w.slot() == Word(word).slot() {
			t.Errorf("over %#x: %#x after %#x, %v", word, uint64(w), uint64(first), err)
		}
		if s, got := p.Settings(); s != settingsOf(2) || got != w {
			t.Errorf("over %#x: the program reads %v", word, s)
		}
	}
	for _, word := range []uint64{1<<64 - 1, NewWordBits(maxGeneration, 0, 0),
		NewWordBits(maxGeneration-1, 0, 0)} {
		p := newRing(t)
		c := drain(t, p.Path)
		*p.Word() = word
		if w, err := c.Apply(settingsOf(2)); !errors.Is(err, ErrDamaged) {
			t.Errorf("over %#x: %#x, %v", word, uint64(w), err)
		}
	}
}

func NewWordBits(generation uint64, kind, slot int) uint64 {
	return uint64(NewWord(generation, channel.Kind(kind), slot))
}

// The switching word of a ring with one writer is beside the tail. The switching word of a ring
// with many writers is in the control part. Each ring uses only one of these two places.
func TestPlaceOfTheSwitchingWord(t *testing.T) {
	for _, many := range []bool{false, true} {
		p := newRing(t, func(c *Config) { c.ManyWriters = many })
		used, unused := &p.Shards[0].page.producer.word, &p.header.control.word
		if many {
			used, unused = unused, used
		}
		if p.Word() != used || *used == 0 || *unused != 0 {
			t.Fatalf("many %t: words %#x and %#x", many, *used, *unused)
		}
		c := drain(t, p.Path)
		w, err := c.Apply(settingsOf(1))
		if err != nil || *used != uint64(w) || *unused != 0 {
			t.Errorf("many %t: words %#x and %#x, want %#x and 0; %v", many, *used, *unused,
				uint64(w), err)
		}
		*unused = NewWordBits(9, int(channel.Null), 0)
		if s, got, err := c.Settings(); s != settingsOf(1) || got != w || err != nil {
			t.Errorf("many %t: %v under %#x, %v", many, s, uint64(got), err)
		}
	}
}

// A drainer reads and changes the settings of a ring of version 1, which a program that was built
// earlier may have open.
func TestSettingsOfARingOfVersion1(t *testing.T) {
	p := newRing(t)
	p.header.identity.version = 1
	p.header.identity.checksum = p.header.identity.sum()
	p.header.control.word, p.Shards[0].page.producer.word = *p.Word(), 0
	c := drain(t, p.Path)
	if s, w, err := c.Settings(); s.Kind != channel.Buffered || w.Generation() != 1 || err != nil {
		t.Fatalf("%v under %v, %v", s, w, err)
	}
	w, err := c.Apply(settingsOf(1))
	if err != nil || p.header.control.word != uint64(w) || p.Shards[0].page.producer.word != 0 {
		t.Errorf("%v, %v; words %#x and %#x", w, err, p.header.control.word,
			p.Shards[0].page.producer.word)
	}
}

// If a word and a slot contradict each other, the settings pass no check.
func TestContradictorySettingsAreRefused(t *testing.T) {
	for name, change := range map[string]func(c *control, word *uint64){
		"slot that is not there": func(c *control, word *uint64) {
			*word = NewWordBits(2, int(channel.Buffered), slots)
		},
		"last slot number": func(c *control, word *uint64) {
			*word = NewWordBits(2, int(channel.Buffered), 0xFF)
		},
		"kind unlike the slot's": func(c *control, word *uint64) {
			*word = NewWordBits(2, int(channel.Identity), 0)
		},
		"empty slot of another": func(c *control, word *uint64) {
			*word = NewWordBits(2, int(channel.Buffered), 3)
		},
		"kind above 8 bits": func(c *control, _ *uint64) { c.slot[0].kind |= 1 << 32 },
		"all ones":          func(_ *control, word *uint64) { *word = 1<<64 - 1 },
		"unknown kind in both": func(c *control, word *uint64) {
			*word, c.slot[0].kind = NewWordBits(2, 99, 0), 99
		},
		"parameter that is not its": func(c *control, _ *uint64) { c.slot[0].a = 1 },
	} {
		p := newRing(t)
		change(&p.header.control, p.Word())
		s, w := p.Settings()
		if err := s.Validate(); err == nil {
			t.Errorf("%s: %v under %v passes", name, s, w)
		}
		if uint64(w) != *p.Word() {
			t.Errorf("%s: word %#x", name, uint64(w))
		}
	}
}

// While settings change as fast as they can, a reader sees only settings that were applied, whole
// and in order.
func TestSettingsUnderAChanger(t *testing.T) {
	p := newRing(t)
	c, r := drain(t, p.Path), look(t, p.Path)
	must1 := func(w Word, err error) Word { must(t, err); return w }
	base := must1(c.Apply(settingsOf(0))).Generation()
	const changes = 50_000
	var changer sync.WaitGroup
	var bad atomic.Bool
	changer.Go(func() {
		for n := uint64(1); n < changes; n++ {
			if w, err := c.Apply(settingsOf(n)); err != nil || w.Generation() != base+n {
				t.Errorf("change %d: %v, %v", n, w, err)
				bad.Store(true)
				return
			}
		}
	})
	last := uint64(0)
	for last < base+changes-1 && !bad.Load() {
		s, w, err := r.Settings()
		if err != nil || w.Generation() < last || s != settingsOf(w.Generation()-base) {
			t.Errorf("%v under %v after generation %d, %v", s, w, last, err)
			break
		}
		last = w.Generation()
	}
	changer.Wait()
}

// Settings change without a pause, and the changes use two slots in turn. So each slot
// is overwritten as soon as possible, but a reader never sees a mixture of two settings.
func TestSettingsAreNeverMixed(t *testing.T) {
	p := newRing(t)
	control := &p.header.control
	var stop atomic.Bool
	var changer sync.WaitGroup
	changer.Go(func() {
		for n := uint64(1); !stop.Load(); n++ {
			s, settings := &control.slot[n%2], settingsOf(3*n+1)
			atomic.StoreUint64(&s.kind, uint64(settings.Kind))
			atomic.StoreUint64(&s.a, settings.A)
			atomic.StoreUint64(&s.b, settings.B)
			atomic.StoreUint64(p.Word(), NewWordBits(n, int(settings.Kind), int(n%2)))
		}
	})
	for seen := 0; seen < 100_000; {
		s, w := p.Settings()
		if s.Kind != channel.XoY { // the first settings, or load gave up
			continue
		}
		seen++
		if s != settingsOf(3*w.Generation()+1) {
			t.Errorf("%v under %v", s, w)
			break
		}
	}
	stop.Store(true)
	changer.Wait()
}

// If a program or a drainer changes a word of the ring all the time (the switching word, a head, a
// count, an entry of the journal), its peer does not wait forever.
func TestNothingThatMovesHangsTheOther(t *testing.T) {
	p := newRing(t, policy(channel.Block))
	r := look(t, p.Path)
	page := p.Shards[0].page
	for _, word := range []*uint64{
		p.Word(), &page.consumer.head, &page.consumer.drops, &page.consumer.journal,
		&page.producer.drops, &page.producer.journal,
		&page.producer.tail, &page.journal[0].word, &page.cells.firstLast.count,
	} {
		was := *word
		var stop atomic.Bool
		var mover sync.WaitGroup
		mover.Go(func() {
			for !stop.Load() {
				atomic.AddUint64(word, 1)
			}
		})
		into := make([]Record, 100)
		for range 20 {
			p.Settings()
			r.State(0)
			r.Copy(0, 0, into)
			r.Drops(0)
			r.Journal(0)
			r.FirstAndLast()
			r.Settings()
		}
		stop.Store(true)
		mover.Wait()
		atomic.StoreUint64(word, was)
	}
}

func TestJournal(t *testing.T) {
	p := newRing(t)
	s, c := &p.Shards[0], drain(t, p.Path)
	counter, written := uint64(100), uint64(0)
	change := func() JournalEntry {
		w, err := c.Apply(settingsOf(counter))
		must(t, err)
		putRecords(s, counter, 1)
		e := JournalEntry{
			Word: w, Settings: settingsOf(counter), From: *s.Tail, Counter: counter,
			Dropped: s.page.producer.dropped,
		}
		s.Journal(w, e.Settings, counter)
		counter++
		written++
		return e
	}
	var want []JournalEntry
	check := func(before uint64) {
		t.Helper()
		got, gotBefore, err := c.Journal(0)
		if err != nil || gotBefore != before || len(got) != len(want) {
			t.Fatalf("%d entries after %d, %v, want %d after %d", len(got), gotBefore, err,
				len(want), before)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("entry %d is %+v, want %+v", i, got[i], want[i])
			}
		}
	}
	want = []JournalEntry{
		{
			Word: FirstWord(testConfig().Settings.Kind), Settings: testConfig().Settings,
			Counter: p.header.identity.openedCounter,
		},
	}
	check(0) // the settings that the program chose
	for range JournalSize - 1 {
		want = append(want, change())
		check(0)
	}
	// The journal is full. Each new entry replaces the newest one. The new entry contains the
	// number of entries that were replaced.
	for skipped := uint64(1); skipped < 30; skipped++ {
		e := change()
		e.Skipped = skipped
		want[JournalSize-1] = e
		check(0)
	}
	must(t, c.Release(0, 0, 0, 10))
	want = append(want[10:], change())
	check(10)
	must(t, c.Release(0, 0, s.page.producer.drops, JournalSize+1))
	want = nil
	check(JournalSize + 1)
	for range 3 * JournalSize { // until the entries have gone around the table three times
		want = []JournalEntry{change()}
		check(s.page.producer.journal - 1)
		must(t, c.Release(0, 0, 0+s.page.producer.drops, s.page.producer.journal))
	}
	// The owner dies while it writes the newest entry.
	want = []JournalEntry{change(), change()}
	s.page.journal[(s.page.producer.journal-1)%JournalSize].word = 0
	want = want[:1]
	check(s.page.producer.journal - 2)
}

func TestDamagedJournal(t *testing.T) {
	for name, change := range map[string]func(s *shard){
		"more taken than written":   func(s *shard) { s.consumer.journal = 5 },
		"more written than fit":     func(s *shard) { s.producer.journal = JournalSize + 1 },
		"far more":                  func(s *shard) { s.producer.journal = 1<<64 - 1 },
		"no word but in the newest": func(s *shard) { s.journal[0].word = 0 },
		"kind that is not":          func(s *shard) { s.journal[0].kind = 99 },
		"kind above 8 bits":         func(s *shard) { s.journal[1].kind |= 1 << 8 },
		"parameters":                func(s *shard) { s.journal[2].b = 1 },
		"place goes back":           func(s *shard) { s.journal[1].from = 3 },
		"place past the tail":       func(s *shard) { s.journal[2].from = 4 },
	} {
		p := newRing(t)
		s := &p.Shards[0]
		for i := range uint64(3) {
			if i > 0 { // the ring has its first journal entry already
				s.Journal(NewWord(i+1, channel.Buffered, 1), testConfig().Settings, i)
			}
			putRecords(s, i, i)
		}
		change(s.page)
		if entries, _, err := look(t, p.Path).Journal(0); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %+v, %v", name, entries, err)
		}
	}
}

func TestDamagedDrops(t *testing.T) {
	for name, change := range map[string]func(s *shard){
		"more taken than begun": func(s *shard) { s.consumer.drops = 4 },
		"more begun than fit":   func(s *shard) { s.producer.drops = DropsSize + 1 },
		"far more":              func(s *shard) { s.producer.drops = 1<<64 - 1 },
		"count goes back":       func(s *shard) { s.drops[1].before = 100 },
		"last begins too late":  func(s *shard) { s.drops[2].before = 100 },
		"dropped too few":       func(s *shard) { s.producer.dropped = 1 },
		"place goes back":       func(s *shard) { s.drops[1].at = 0 },
		"place past the tail":   func(s *shard) { s.drops[2].at = 1000 },
		"counters go back":      func(s *shard) { s.drops[2].last = 1 },
	} {
		p := newRing(t)
		s := &p.Shards[0]
		for i := uint64(1); i <= 3; i++ { // make three ranges of one event each
			for putRecords(s, 100+i, 1) {
			}
			setHead(p, 0, i)
		}
		if ranges, _, err := look(t, p.Path).Drops(0); err != nil || len(ranges) != 3 {
			t.Fatalf("%+v, %v", ranges, err)
		}
		change(s.page)
		if ranges, _, err := look(t, p.Path).Drops(0); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %+v, %v", name, ranges, err)
		}
	}
}

func TestDamagedState(t *testing.T) {
	for name, test := range map[string]struct {
		change func(s *shard)
		say    string
	}{
		"tail without end": {func(s *shard) { s.producer.tail = 1 << 63 }, "tail"},
		"head past tail":   {func(s *shard) { s.consumer.head = 11 }, "past tail"},
		"too far apart":    {func(s *shard) { s.producer.tail = MinRecords + 1 + 5 }, "room for"},
		"tail went back":   {func(s *shard) { s.producer.tail = 9 }, "went back"},
		"drops went back":  {func(s *shard) { s.producer.dropped = 2 }, "went back"},
		"too many dropped": {func(s *shard) { s.producer.dropped = MaxEvents + 1 }, "dropped"},
		"within a pair":    {func(*shard) {}, "pairs"},
	} {
		p := newRing(t)
		r := look(t, p.Path)
		s := p.Shards[0].page
		s.producer.tail, s.producer.dropped, s.consumer.head = 10, 3, 5
		if got, err := r.State(0); err != nil || got != (State{Tail: 10, Head: 5, Dropped: 3}) {
			t.Fatalf("%+v, %v", got, err)
		}
		r.header.Links = name == "within a pair"
		test.change(s)
		for what, try := range map[string]func() error{
			"State": func() error { _, err := r.State(0); return err },
			"Copy":  func() error { _, _, _, err := r.Copy(0, 5, make([]Record, 1)); return err },
		} {
			if err := try(); !errors.Is(err, ErrDamaged) ||
				!strings.Contains(err.Error(), test.say) {
				t.Errorf("%s: %s = %v, want %q", name, what, err, test.say)
			}
		}
	}
}

// Head and tail move between a reader's loads. Even then, the head and the tail that the reader
// returns are values that the two had at the same moment.
func TestStateUnderADrainer(t *testing.T) {
	if os.Getenv(reexec.EmulatorVariable) != "" {
		t.Skip("emulated, the reader is too slow to ever see this head stand still")
	}
	p := newRing(t)
	r, page := look(t, p.Path), p.Shards[0].page
	var stop atomic.Bool
	var both sync.WaitGroup
	both.Go(func() {
		for n := uint64(MinRecords); !stop.Load(); n += MinRecords {
			atomic.StoreUint64(&page.producer.tail, n)
			atomic.StoreUint64(&page.consumer.head, n)
			for range n / MinRecords % 256 { // far faster than any drainer, but with pauses
				stop.Load()
			}
		}
	})
	for seen := 0; seen < 2_000_000; {
		s, err := r.State(0)
		if err != nil {
			t.Error(err)
			break
		}
		if s.Head == 0 {
			runtime.Gosched()
			continue
		}
		seen++
	}
	stop.Store(true)
	both.Wait()
}

// Only the drainer may move a head. If somebody else moves it, the drainer reports damage.
func TestAHeadThatMovesByItself(t *testing.T) {
	p := newRing(t)
	for i := range uint64(10) {
		putRecords(&p.Shards[0], i, i)
	}
	setHead(p, 0, 2) // done by another drainer, before this one opens the ring
	c, r := drain(t, p.Path), look(t, p.Path)
	must(t, c.Release(0, 4, 0, 0))
	_, err := c.State(0)
	must(t, err)
	setHead(p, 0, 6)
	if _, err := c.State(0); !errors.Is(err, ErrDamaged) {
		t.Errorf("drainer: %v", err)
	}
	if err := c.Release(0, 7, 0, 0); !errors.Is(err, ErrDamaged) {
		t.Errorf("release: %v", err)
	}
	if s, err := r.State(0); err != nil || s.Head != 6 {
		t.Errorf("somebody who looks on: %+v, %v", s, err)
	}
}
