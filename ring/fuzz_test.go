package ring

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// ringImages returns the ring files that the fuzz target changes: one for each kind of ring. Each
// of these files has entries in all its tables.
func ringImages(t testing.TB) [][]byte {
	var all [][]byte
	for _, change := range [][]func(*Config){
		{policy(channel.Drop)},
		{policy(channel.Overwrite)},
		{policy(channel.Overwrite), linking},
		{policy(channel.Drop), manyWriters},
	} {
		p := newRingIn(t, t.TempDir(), 2, append(change, size(2*MinRecords))...)
		c := drain(t, p.Path)
		for i := range p.Shards {
			s := &p.Shards[i]
			for n := range uint64(100) {
				switch {
				case s.manyWriters && n == 40:
					reservePlaces(s, n, 1) // a hole: reserved and never written
				case s.manyWriters:
					putMany(s, n, n)
				default:
					putRecords(s, n, n, n)
				}
				s.FirstLast().Put(Record{n, n})
				if n%20 == 0 {
					_, w := p.Settings()
					s.Journal(w, testConfig().Settings, n)
					if state, err := c.State(i); err == nil {
						must(t, c.Release(i, min(state.Tail, state.Head+3),
							min(s.page.producer.drops, n/40), n/40))
					}
				}
			}
		}
		image, err := os.ReadFile(p.Path)
		must(t, err)
		all = append(all, image)
	}
	return all
}

// FuzzReader changes words of a ring file as a hostile program may, and corrects the checksum. Then
// either Open refuses the file with one of its documented errors, or everything that the methods of
// Reader return is valid: see readAll.
func FuzzReader(f *testing.F) {
	all := ringImages(f)
	// A mutation has ten bytes: two for the index of the word, and eight for its new value.
	mutation := func(at uint16, value uint64) []byte {
		return binary.LittleEndian.AppendUint64([]byte{byte(at), byte(at >> 8)}, value)
	}
	for kind := range all {
		f.Add(byte(kind), []byte{}, uint64(0))
		for word := range 16 + 8 { // the identity and the producer line
			at := uint16(word)
			if word >= 16 {
				at = 4096/8 + uint16(word-16)
			}
			for _, value := range []uint64{0, 1, 33, 1 << 31, 1 << 62, 1<<64 - 1} {
				f.Add(byte(kind), mutation(at, value), uint64(0))
			}
		}
	}
	path := filepath.Join(f.TempDir(), "fuzz.ring")
	f.Fuzz(func(t *testing.T, kind byte, mutations []byte, from uint64) {
		image := append([]byte{}, all[int(kind)%len(all)]...)
		for ; len(mutations) >= 10; mutations = mutations[10:] {
			at := 8 * int(binary.LittleEndian.Uint16(mutations)) % len(image)
			copy(image[at:], mutations[2:10])
		}
		id := (*identity)(unsafe.Pointer(&image[0]))
		id.checksum = id.sum()
		writeFile(t, path, image)
		began := time.Now()
		readAll(t, path, from)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("reading took %v", took)
		}
	})
}

// readAll reads everything that a Reader can read of a ring, and checks it.
func readAll(t *testing.T, path string, from uint64) {
	t.Helper()
	c, err := OpenConsumer(path)
	if err != nil {
		if !errors.Is(err, ErrUntrusted) && !errors.Is(err, ErrVersion) &&
			!errors.Is(err, ErrDamaged) {
			t.Errorf("an error of no known sort: %v", err)
		}
		return
	}
	defer c.Close()
	h := c.Header()
	if _, err := channel.ParseName(h.Name.String()); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(path)
	must(t, err)
	if fileBytes(h.Shards, h.Records) != int(info.Size()) || !h.ManyWriters && h.Shards != 1 ||
		!h.Policy.Known() || !h.Stamp.Known() ||
		h.OpenedLatest.Before(h.OpenedEarliest) || h.NodeNumber > channel.MaxNode+1 {
		t.Errorf("header %+v of %d bytes", h, info.Size())
	}
	if alive, err := c.Alive(); alive || err != nil {
		t.Errorf("alive %v, %v", alive, err)
	}
	refused := func(what string, err error) bool {
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: an error of no known sort: %v", what, err)
		}
		return err != nil
	}
	for i := range h.Shards {
		s, err := c.State(i)
		if refused("State", err) {
			continue
		}
		if s.Head > s.Tail || s.Tail >= 1<<63 ||
			h.Policy != channel.Overwrite && s.Tail-s.Head > h.Records {
			t.Errorf("state %+v", s)
		}
		copyFuzzed(t, c, i, s, from)
		copyFuzzed(t, c, i, s, s.Head)

		ranges, takenDrops, err := c.Drops(i)
		if !refused("Drops", err) {
			place, sum := uint64(0), uint64(0)
			for _, r := range ranges {
				if r.At < place || r.At > s.Tail || r.FirstCounter > r.LastCounter ||
					r.Count > s.Dropped {
					t.Errorf("range %+v after one at %d, state %+v", r, place, s)
				}
				place = r.At
				sum += r.Count
			}
			if len(ranges) > DropsSize || sum > s.Dropped {
				t.Errorf("%d ranges of %d drops, the ring has %d", len(ranges), sum, s.Dropped)
			}
		}
		entries, takenJournal, err := c.Journal(i)
		if !refused("Journal", err) {
			place := uint64(0)
			for _, e := range entries {
				if e.Settings.Validate() != nil || e.From < place || e.From > s.Tail ||
					e.Word == 0 {
					t.Errorf("entry %+v after one from %d, state %+v", e, place, s)
				}
				place = e.From
			}
			if len(entries) > JournalSize {
				t.Errorf("%d entries", len(entries))
			}
		}
		if err := c.Release(i, s.Head, takenDrops+uint64(len(ranges)),
			takenJournal+uint64(len(entries))); err == nil {
			if after, err := c.State(i); err != nil || after != s {
				t.Errorf("releasing nothing made %+v of %+v, %v", after, s, err)
			}
		}
	}
	if _, err := c.Counted(); err != nil {
		t.Errorf("Counted: %v", err)
	}
	if _, err := c.FirstAndLast(); err != nil {
		t.Errorf("FirstAndLast: %v", err)
	}
	settings, before, err := c.Settings()
	if err != nil {
		t.Errorf("Settings: %v", err)
	}
	if settings.Validate() == nil && (settings.Kind != before.Kind() || before.slot() >= slots) {
		t.Errorf("settings %v under %v", settings, before)
	}
	w, err := c.Apply(settingsOf(5))
	if refused("Apply", err) {
		return
	}
	if got, gotWord, err := c.Settings(); err != nil || got != settingsOf(5) || gotWord != w ||
		w.Generation() <= before.Generation() {
		t.Errorf("settings %v under %v, before %v, %v", got, gotWord, before, err)
	}
}

func copyFuzzed(t *testing.T, c *Consumer, i int, s State, from uint64) {
	t.Helper()
	h := c.Header()
	into := make([]Record, h.Records+1)
	first, n, unfinished, err := c.Copy(i, from, into)
	if err != nil {
		t.Errorf("Copy after State: %v", err)
		return
	}
	switch {
	case first < from || n < 0 || uint64(n) > h.Records || n > 0 && first+uint64(n) > s.Tail,
		n > 0 && h.Policy != channel.Overwrite && first < s.Head,
		n > 0 && h.Policy == channel.Overwrite && s.Tail-first >= h.Records,
		unfinished && !h.ManyWriters,
		!h.ManyWriters && first < s.Tail && first+uint64(n) != s.Tail:
		t.Errorf("copy from %d: %d from %d on, unfinished %v, state %+v of %d", from, n, first,
			unfinished, s, h.Records)
	}
	for k, r := range into[:n] {
		seq := first + uint64(k)
		raw := rawRecord(t, c.Path(), h, i, seq)
		if r.Counter != raw.Counter&counterMask || r.ID != raw.ID ||
			h.ManyWriters && raw.Counter&lapBit != lapMark(seq, h.Records) {
			t.Errorf("sequence %d is %+v, the file has %+v", seq, r, raw)
		}
	}
}

// rawRecord returns the bytes that a file has at the place of a sequence number.
func rawRecord(t *testing.T, path string, h Header, shard int, seq uint64) (r Record) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	at := recordsOffset(h.Shards) + (shard*int(h.Records)+int(seq%h.Records))*RecordBytes
	_, err = f.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&r)), RecordBytes), int64(at))
	must(t, err)
	return r
}

// FuzzIdentity changes bytes of the identity, corrects the checksum, and makes the file as long as
// the identity says.
func FuzzIdentity(f *testing.F) {
	p := newRing(f)
	valid := append([]byte{}, p.mapping[:unsafe.Sizeof(identity{})]...)
	f.Add(valid)
	for i := range valid {
		changed := append([]byte{}, valid...)
		changed[i] ^= 1 << (i % 8)
		f.Add(changed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var id identity
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&id)), unsafe.Sizeof(id)), b)
		id.checksum = id.sum()
		h, err := id.check(int64(id.fileBytes))
		if err != nil {
			if !errors.Is(err, ErrVersion) && !errors.Is(err, ErrDamaged) {
				t.Errorf("an error of no known sort: %v", err)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		// If check accepts an identity, the Header contains all of it: an identity built from the
		// Header is the same.
		again := id
		again.shards, again.records, again.fileBytes = uint32(h.Shards), h.Records,
			uint64(fileBytes(h.Shards, h.Records))
		again.name, again.nameBytes = [channel.MaxNameBytes]byte{}, uint8(len(h.Name.String()))
		copy(again.name[:], h.Name.String())
		again.openedUTCLo_ns, again.openedUTCHi_ns = h.OpenedEarliest.UnixNano(),
			h.OpenedLatest.UnixNano()
		again.policy, again.stamp, again.pid, again.nodeNumber = uint8(h.Policy), uint8(h.Stamp),
			uint32(h.ProcessID), uint32(h.NodeNumber)
		if again != id {
			t.Errorf("%+v reads as %+v", id, h)
		}
		if uint64(h.Shards)*h.Records > MaxRecords || h.Records < MinRecords {
			t.Errorf("%d shards of %d records", h.Shards, h.Records)
		}
	})
}
