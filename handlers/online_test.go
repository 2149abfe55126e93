package handlers

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// A broken agent may write anything while a program logs. The program does not fault: it sets a
// flag and discards events. With good settings the program keeps events again.
func TestBadSettingsOnline(t *testing.T) {
	tests := map[string]struct {
		opened   string // the handler when the channel was opened; "": id
		word     ring.Word
		slot     int
		settings channel.Settings
	}{
		"n is zero": {word: ring.NewWord(9, channel.Downsample, 3), slot: 3,
			settings: channel.Settings{Kind: channel.Downsample}},
		"n and a second number": {word: ring.NewWord(9, channel.Downsample, 3), slot: 3,
			settings: channel.Settings{Kind: channel.Downsample, A: 2, B: 2}},
		"y is zero": {word: ring.NewWord(9, channel.XoY, 3), slot: 3,
			settings: channel.Settings{Kind: channel.XoY}},
		"x is above y": {word: ring.NewWord(9, channel.XoY, 3), slot: 3,
			settings: channel.Settings{Kind: channel.XoY, A: 2, B: 1}},
		"period is zero": {word: ring.NewWord(9, channel.Counter, 3), slot: 3,
			settings: channel.Settings{Kind: channel.Counter}},
		"unknown kind": {word: ring.NewWord(9, 8, 3), slot: 3,
			settings: channel.Settings{Kind: 8}},
		"kind 255": {word: ring.NewWord(9, 255, 3), slot: 3,
			settings: channel.Settings{Kind: 255}},
		"another kind in slot": {word: ring.NewWord(9, channel.Buffered, 3), slot: 3,
			settings: channel.Settings{Kind: channel.FirstLast}},
		"another kind in word": {word: ring.NewWord(9, channel.Null, 3), slot: 3,
			settings: channel.Settings{Kind: channel.Buffered}},
		"a slot that is not": {word: ring.NewWord(9, channel.Buffered, 8), slot: 0,
			settings: channel.Settings{Kind: channel.Buffered}},
		"the last slot there is": {word: ring.NewWord(9, channel.Buffered, 255), slot: 7,
			settings: channel.Settings{Kind: channel.Buffered}},
		"link on another channel": {word: ring.NewWord(9, channel.Link, 3), slot: 3,
			settings: channel.Settings{Kind: channel.Link}},
		"id on a link channel": {opened: "link", word: ring.NewWord(9, channel.Identity, 3),
			slot: 3, settings: channel.Settings{Kind: channel.Identity}},
		"a word of zeroes": {word: 0, slot: 3,
			settings: channel.Settings{Kind: channel.Buffered}},
		"a word of ones": {word: 1<<64 - 1, slot: 7,
			settings: channel.Settings{Kind: 255, A: 1<<64 - 1, B: 1<<64 - 1}},
		"parameters of none": {word: ring.NewWord(9, channel.Buffered, 3), slot: 3,
			settings: channel.Settings{Kind: channel.Buffered, A: 1, B: 1}},
	}
	for what, test := range tests {
		for _, writer := range allWriters {
			t.Run(what+"/"+writer.name, func(t *testing.T) {
				if test.opened == "" {
					test.opened = "id"
				}
				c := openTest(t, writer.many, Options{Handler: test.opened, Stamp: writer.stamp,
					Policy: "drop"})
				log := callOf(c)
				d, err := newDrain(c.Path())
				if err != nil {
					t.Fatal(err)
				}
				defer d.consumer.Close()
				each := uint64(1) // records for each call
				if c.links {
					each = 2
				}
				drained := func() (n uint64, flags uint64) {
					t.Helper()
					if _, err := d.drainOnce(false); err != nil {
						t.Fatal(err)
					}
					for i := range d.takenRecords {
						n += uint64(len(d.takenRecords[i]))
					}
					s, err := d.consumer.State(0)
					if err != nil {
						t.Fatal(err)
					}
					return n, s.Flags
				}
				for id := range uint64(10) {
					log(id)
				}
				if n, flags := drained(); n != 10*each || flags != 0 {
					t.Fatalf("before: %d records, flags %#x", n, flags)
				}
				if err := scribble(c.Path(), test.word, test.slot, test.settings); err != nil {
					t.Fatal(err)
				}
				for id := range uint64(10) {
					log(id)
				}
				if n, flags := drained(); n != 10*each || flags != ring.FlagBadSettings {
					t.Errorf("under bad settings: %d records, flags %#x, want %d and %#x",
						n, flags, 10*each, ring.FlagBadSettings)
				}
				kind := channel.Buffered
				if c.links {
					kind = channel.Link
				}
				// The bad word may have the highest generation. Then Apply could not set another
				// word, so the test writes the word itself.
				if err := scribble(c.Path(), ring.NewWord(10, kind, 4), 4,
					channel.Settings{Kind: kind}); err != nil {
					t.Fatal(err)
				}
				for id := range uint64(10) {
					log(id)
				}
				if n, _ := drained(); n != 20*each {
					t.Errorf("good settings again: %d records, want %d", n, 20*each)
				}
				if last := d.journal[len(d.journal)-1]; last.Settings.Kind != kind {
					t.Errorf("the journal ends with %+v", last)
				}
			})
		}
	}
}

// The program does not fault, whatever somebody writes into the switching word and the slots while
// the program logs.
func TestScribbledControlPage(t *testing.T) {
	draw := seed.Random(t)
	for _, writer := range allWriters {
		c := openTest(t, writer.many, Options{Handler: "id", Stamp: writer.stamp, Policy: "drop",
			Buffer: "4KiB"})
		log := callOf(c)
		for range 2000 {
			s := channel.Settings{Kind: channel.Kind(draw.IntN(9)), A: drawNumber(draw),
				B: drawNumber(draw)}
			if draw.IntN(4) == 0 {
				s.Kind = channel.Kind(draw.Uint32())
			}
			slot := draw.IntN(8)
			word := ring.NewWord(draw.Uint64(), s.Kind, slot)
			if draw.IntN(4) == 0 {
				word = ring.Word(drawNumber(draw))
			}
			if err := scribble(c.Path(), word, slot, s); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				log(drawNumber(draw))
			}
		}
	}
}

// If an old switching word comes back, the program reads its slot again. The settings that the word
// had before do not apply any more.
func TestOldWordComesBack(t *testing.T) {
	for _, writer := range allWriters {
		for _, handler := range []string{"id", "null"} {
			c := openTest(t, writer.many, Options{Handler: handler, Stamp: writer.stamp,
				Policy: "drop"})
			old := ring.Word(*c.word)
			other, kept := channel.Null, 0
			if handler == "null" {
				other, kept = channel.Identity, 1
			}
			if err := scribble(c.Path(), ring.NewWord(2, other, 1), 1,
				channel.Settings{Kind: other}); err != nil {
				t.Fatal(err)
			}
			c.Log(1)
			// The slot of the old word now contradicts the word.
			if err := scribble(c.Path(), old, 0,
				channel.Settings{Kind: channel.FirstLast}); err != nil {
				t.Fatal(err)
			}
			c.Log(2)
			v, err := viewRing(c.Path())
			if err != nil {
				t.Fatal(err)
			}
			if len(v.records) != kept || v.flags != ring.FlagBadSettings {
				t.Errorf("%s, %s: %d records and flags %#x, want %d and %#x", writer.name, handler,
					len(v.records), v.flags, kept, ring.FlagBadSettings)
			}
		}
	}
}
