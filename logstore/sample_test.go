package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

func mustName(t testing.TB, s string) channel.Name {
	t.Helper()
	name, err := channel.ParseName(s)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

var sampleIncarnation = Incarnation{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// sampleHeader returns a header with a different value in every field.
func sampleHeader(t testing.TB) Header {
	return Header{
		Node: "node \"seven\"\n", NodeNumber: 7, Epoch: "boot-4711",
		Channel:  mustName(t, "map#3/start"),
		Settings: channel.Settings{Kind: channel.XoY, A: 2, B: 1024}, Policy: channel.Drop,
		Stamp:       channel.Unordered,
		Incarnation: sampleIncarnation, ProcessID: 1234, Quantum_cycles: 26, CoreSlack_cycles: 65,
		Counter: 1 << 51, UTCLo_ns: 1_700_000_000_000_000_001, UTCHi_ns: 1_700_000_000_000_000_099,
	}
}

// sampleBlocks returns blocks of every kind, with events in two shards. The events of one shard are
// plain. The drops among the blocks account for the missing rows.
func sampleBlocks() []*Block {
	rng := rand.New(rand.NewPCG(1, 2))
	events := func(first uint64, shard, n int) *Block {
		b := &Block{Incarnation: sampleIncarnation, Shard: shard, First: first, Plain: shard == 5}
		counter := 26 * (1<<46 + 1000*first)
		for i := range n {
			counter += 26 * (1 + rng.Uint64N(40))
			b.Events = append(b.Events, Event{counter, 1<<50 | first + uint64(i)})
		}
		return b
	}
	blocks := []*Block{
		{
			Incarnation: sampleIncarnation,
			Transitions: []Transition{{0, 1, uint64(channel.XoY), 2, 1024, 26 << 46, 0, 0}},
		},
		events(0, 0, 300),
		events(0, 5, 120),
		events(300, 0, 200),
		{
			Incarnation: sampleIncarnation,
			Drops: []Drop{
				{uint64(Events), uint64(RingFull), 500, 17, 26 << 47, 27 << 47},
				{uint64(Events), uint64(NeverWritten), 500, 1, 0, 0},
			},
		},
		events(501, 0, 99),
		{Incarnation: sampleIncarnation, Links: []Link{{1, 100}, {2, 100}, {math.MaxUint64, 0}}},
		{
			Incarnation: sampleIncarnation,
			Samples: []Sample{
				{26 << 46, 0}, {26<<46 + 2_600_000_000, 17}, {26<<46 + 5_200_000_000, 1 << 60},
			},
		},
		{
			Incarnation: sampleIncarnation,
			FirstLasts: []FirstLast{
				{}, {3, 26 << 46, 11, 27 << 46, 13, 0}, {4, 26 << 46, 11, 28 << 46, 14, 29 << 46},
			},
		},
		events(120, 5, 80),
		{
			Incarnation: sampleIncarnation,
			Transitions: []Transition{{600, 2, uint64(channel.Null), 0, 0, 28 << 46, 17, 3}},
			First:       1,
		},
		{
			Incarnation: sampleIncarnation,
			ReturnTrips: []ReturnTrip{{5, 26 << 46, 26<<46 + 260}, {6, 26<<46 + 26, 26<<46 + 520}},
		},
		{
			Incarnation: sampleIncarnation,
			NTPs: []NTP{
				{26 << 46, 26<<46 + 52, -12345, 200, 300, -7, 8, 2, 0, 0x7f7f0101},
				{27 << 46, 27<<46 + 52, 12345, 201, 301, 9, 10, 3, 3, 5},
			},
		},
		events(600, 0, 1),
	}
	return blocks
}

// rowKey is the place of one row in a log.
type rowKey struct {
	kind  Kind
	shard int
	at    uint64
}

type rowValue [10]uint64

// rowsOf adds the rows of a block to a map, and returns an error for a row that the map already
// contains.
func rowsOf(b *Block, all map[rowKey]rowValue) error {
	kind, words := b.rows()
	width := kind.columns()
	for i := range b.Len() {
		key := rowKey{kind, b.Shard, b.First + uint64(i)}
		var value rowValue
		copy(value[:], words[i*width:(i+1)*width])
		if _, twice := all[key]; twice {
			return fmt.Errorf("%v comes twice", key)
		}
		all[key] = value
	}
	return nil
}

func rowsOfAll(t testing.TB, blocks []*Block) map[rowKey]rowValue {
	t.Helper()
	all := make(map[rowKey]rowValue)
	for _, b := range blocks {
		if err := rowsOf(b, all); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// writeLog writes blocks to a file and returns its bytes.
func writeLog(t testing.TB, h Header, blocks []*Block, seal bool) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	var then *End
	if seal {
		then = ptr(Ended)
	}
	writeLogTo(t, path, h, blocks, then)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// writeLogTo writes blocks to a file, and seals it unless then is nil.
func writeLogTo(t testing.TB, path string, h Header, blocks []*Block, then *End) {
	t.Helper()
	w, err := Create(nil, path, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		if err := w.Append(b); err != nil {
			t.Fatal(err)
		}
	}
	if then != nil {
		err = w.SealAs(*then)
	} else {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// faultyDisk is the operating system's file system, with a limit on the bytes that can be written.
type faultyDisk struct {
	OS
	free int // number of bytes that can still be written
}

type faultyFile struct {
	WriterFile
	disk *faultyDisk
}

var errDiskFull = errors.New("no space left on device")

func (d *faultyDisk) OpenFile(path string, flag int, mode fs.FileMode) (WriterFile, error) {
	f, err := d.OS.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return &faultyFile{f, d}, nil
}

// WriteAt writes as much as the disk takes. If that is not everything, WriteAt does not say how
// much it was, just as os.File does not.
func (f *faultyFile) WriteAt(b []byte, offset int64) (int, error) {
	if len(b) <= f.disk.free {
		f.disk.free -= len(b)
		return f.WriterFile.WriteAt(b, offset)
	}
	_, err := f.WriterFile.WriteAt(b[:f.disk.free], offset)
	f.disk.free = 0
	return 0, cmp.Or(err, errDiskFull)
}
