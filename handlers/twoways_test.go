package handlers

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// edgeNumbers are numbers at which arithmetic with 64 bits is most likely to go wrong.
var edgeNumbers = []uint64{0, 1, 2, 3, 5, 7, 10, 1000, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32,
	1<<32 + 1,
	1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<64 - 2, 1<<64 - 1}

// drawNumber draws a number near one of the edges, or any number.
func drawNumber(draw *rand.Rand) uint64 {
	switch draw.IntN(4) {
	case 0:
		return draw.Uint64() >> draw.IntN(64)
	case 1:
		return edgeNumbers[draw.IntN(len(edgeNumbers))] + draw.Uint64N(5) - 2
	default:
		return edgeNumbers[draw.IntN(len(edgeNumbers))]
	}
}

func TestSieveIsTheRemainder(t *testing.T) {
	draw := seed.Random(t)
	check := func(v, below, modulus uint64) {
		t.Helper()
		s := newSieve(below, modulus)
		if got, want := s.keeps(v), v%modulus < below; got != want {
			t.Fatalf("sieve of %d below %d keeps %d: %v, want %v", modulus, below, v, got, want)
		}
	}
	for _, modulus := range edgeNumbers[1:] {
		for _, v := range edgeNumbers {
			for _, below := range edgeNumbers {
				check(v, below, modulus)
			}
			check(v, v%modulus, modulus)
			check(v, v%modulus+1, modulus)
		}
	}
	for range 300_000 {
		v, modulus := drawNumber(draw), max(drawNumber(draw), 1)
		check(v, v%modulus+draw.Uint64N(2), modulus)
	}
}

// The log call for xoy computes remainders without a division. It keeps the same ids that it would
// keep with a division.
func TestXoYKeepsWhatDivisionKeeps(t *testing.T) {
	draw := seed.Random(t)
	for _, many := range []bool{false, true} {
		c := openTest(t, many, Options{Handler: "null", Policy: "drop"})
		d, err := newDrain(c.Path())
		if err != nil {
			t.Fatal(err)
		}
		defer d.consumer.Close()
		for range 300 {
			s := channel.Settings{Kind: channel.XoY, B: max(drawNumber(draw), 1)}
			s.A = min(drawNumber(draw), s.B)
			if draw.IntN(2) == 0 {
				s.A = draw.Uint64() % s.B
			}
			if _, err := d.consumer.Apply(s); err != nil {
				t.Fatal(err)
			}
			var want []uint64
			for range 100 {
				id := drawNumber(draw)
				if draw.IntN(2) == 0 { // an id at the limit between kept and discarded ids
					id = s.B*(draw.Uint64()/s.B) + s.A + draw.Uint64N(3) - 1
				}
				if id%s.B < s.A {
					want = append(want, id)
				}
				c.Log(id)
			}
			if _, err := d.drainOnce(false); err != nil {
				t.Fatal(err)
			}
			var got []uint64
			for i, shard := range d.takenRecords {
				for _, r := range shard {
					got = append(got, r.ID)
				}
				d.takenRecords[i] = nil
			}
			if many { // ids of several shards have no common order here, so compare them sorted
				slices.Sort(got)
				slices.Sort(want)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("many=%v, %v: %d ids kept, want %d", many, s, len(got), len(want))
			}
		}
	}
}

// anySettings draws settings that a channel may change to.
func anySettings(draw *rand.Rand, links bool) channel.Settings {
	if links {
		return channel.Settings{Kind: []channel.Kind{channel.Null, channel.Link}[draw.IntN(2)]}
	}
	switch kind := channel.Kind(draw.IntN(int(channel.Link))); kind {
	case channel.Downsample:
		return channel.Settings{Kind: kind, A: max(drawNumber(draw)%20, 1)}
	case channel.XoY:
		s := channel.Settings{Kind: kind, B: max(drawNumber(draw), 1)}
		s.A = min(drawNumber(draw), s.B)
		return s
	case channel.Counter:
		return channel.Settings{Kind: kind, A: channel.MinPeriod_ns}
	default:
		return channel.Settings{Kind: kind}
	}
}

// The log call in assembly, the log call in Go and the model leave the same content in the ring,
// except for the stamps.
func TestTwoWaysToLogAreOne(t *testing.T) {
	draw := seed.Random(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one shard, even with many writers
	for round := range 40 {
		many, links := draw.IntN(2) == 0, draw.IntN(8) == 0
		o := Options{Policy: []string{"drop", "drop", "overwrite"}[draw.IntN(3)],
			Stamp: []string{"rdtscp", "rdtsc"}[draw.IntN(2)], Buffer: "512"}
		if many {
			o.Policy, o.Stamp = "drop", "rdtscp"
		}
		if o.Handler = "null"; links {
			o.Handler, o.Policy = "link", "drop"
		}
		if err := twoWays(t, draw, many, o); err != nil {
			t.Fatalf("round %d, many=%v, %+v: %v", round, many, o, err)
		}
	}
}

func twoWays(t *testing.T, draw *rand.Rand, many bool, o Options) error {
	t.Helper()
	var twins [2]*Channel
	var consumers [2]*ring.Consumer
	for i := range twins {
		twins[i] = openTest(t, many, o)
		var err error
		if consumers[i], err = ring.OpenConsumer(twins[i].Path()); err != nil {
			return err
		}
		defer consumers[i].Close()
		defer twins[i].Close()
	}
	first, err := viewRing(twins[0].Path())
	if err != nil {
		return err
	}
	config, _ := o.checkOptions(channel.Name{Actor: "actor", Point: "start"}, many)
	m := model{capacity: consumers[0].Header().Records, policy: config.Policy,
		links: o.Handler == "link", settings: config.Settings, last: first}
	everyStamp := bracket{0, 1<<64 - 1}
	for range 200 {
		switch draw.IntN(20) {
		case 0:
			s := anySettings(draw, m.links)
			for _, consumer := range consumers {
				if _, err := consumer.Apply(s); err != nil {
					return err
				}
			}
			m.applied = &s
		case 1:
			if m.policy == channel.Overwrite {
				break
			}
			n := draw.Uint64N(uint64(len(m.want)) - m.head + 1)
			if m.links {
				n &^= 1
			}
			m.head += n
			for _, consumer := range consumers {
				if err := consumer.Release(m.last.shard, m.head, 0, 0); err != nil {
					return err
				}
			}
			if m.last, err = viewRing(twins[0].Path()); err != nil {
				return err
			}
		}
		c := call{id: drawNumber(draw), child: draw.Uint64(), link: m.links && draw.IntN(10) > 0}
		e := m.nextEffect(c)
		if c.link {
			twins[0].Link(c.id, c.child)
			twins[1].Link(c.id, c.child)
		} else {
			twins[0].Log(c.id)
			if !twins[1].keepsNothing() {
				logGo(twins[1], c.id)
			}
		}
		got, err := viewRing(twins[0].Path())
		if err != nil {
			return err
		}
		if err := m.checkView(got, e, everyStamp, true); err != nil {
			return fmt.Errorf("%+v under %v: %w", c, m.settings, err)
		}
		other, err := viewRing(twins[1].Path())
		if err != nil {
			return err
		}
		m.applyEffect(e, got)
		if log, portable := withoutCounters(got), withoutCounters(other); !reflect.DeepEqual(log,
			portable) {
			return fmt.Errorf("%+v under %v: Log leaves %+v, logGo leaves %+v",
				c, m.settings, log, portable)
		}
	}
	return nil
}

// withoutCounters returns a copy of a view without the readings of the counter.
func withoutCounters(v *view) view {
	u := *v
	u.records = slices.Clone(u.records)
	for i := range u.records {
		u.records[i].Counter = 0
	}
	u.ranges = slices.Clone(u.ranges)
	for i := range u.ranges {
		u.ranges[i].FirstCounter, u.ranges[i].LastCounter = 0, 0
	}
	u.journals = slices.Clone(u.journals)
	for i := range u.journals {
		u.journals[i] = slices.Clone(u.journals[i])
		for k := range u.journals[i] {
			u.journals[i][k].Counter = 0
		}
	}
	u.firstLast.First.Counter, u.firstLast.Last.Counter = 0, 0
	u.firstLast.PoisonCounter = min(u.firstLast.PoisonCounter, 1)
	return u
}
