package tscratio

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

// smallPair returns a pair with a different value in every field.
func smallPair(t testing.TB) *Pair {
	t.Helper()
	a := Node{Name: "a", Epoch: "boot 1", Nominal_hz: 2_596_000_000, Quantum_cycles: 26,
		CoreSlack_cycles: 170}
	b := Node{Name: "beta", Epoch: "", Nominal_hz: 1_000_000_000, Quantum_cycles: 40,
		CoreSlack_cycles: 5}
	p := mustReturn(NewPair(a, b,
		Assumptions{Wander: 100 * PPB, Window: 10 * time.Second, ExtrapolationLimit: time.Minute,
			MaxWander: 16 * PPM}))(t)
	for _, tr := range []Train{
		{By: StartedByA, Exchanges: []Exchange{
			{Sent: Interval{1000, 1001}, Received: Interval{2002, 2003},
				Answered: Interval{2014, 2015}, Returned: Interval{1206, 1207}},
			{Sent: Interval{1300, 1301}, Received: Interval{2102, 2103},
				Answered: Interval{2114, 2115}, Returned: Interval{1406, 1407}},
		}, Stamps: Stamps{Kernel: 7, User: 1}},
		{By: StartedByB, OneWay: []Constraint{{Upper, 1 << 40, 1 << 41}}, Stamps: Stamps{User: 2}},
	} {
		if err := p.Add(tr); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// TestEncodeBytes compares every byte of a stored pair with the fields in the order of FORMAT.md.
func TestEncodeBytes(t *testing.T) {
	block := func(payload string) string {
		raw := strings.Join(strings.Fields(payload), "")
		var n [4]byte
		binary.LittleEndian.PutUint32(n[:], uint32(len(raw)/2))
		b, err := hex.DecodeString(hex.EncodeToString(n[:]) + raw)
		if err != nil {
			t.Fatal(err)
		}
		return hex.EncodeToString(binary.LittleEndian.AppendUint32(b,
			crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))))
	}
	want := hex.EncodeToString([]byte("CPRELATE")) + "02000000" +
		block(`01
			0100 61  0600 626f6f742031  00d1bb9a00000000 1a00000000000000 aa00000000000000
			0400 62657461  0000  00ca9a3b00000000 2800000000000000 0500000000000000
			a086010000000000 00e40b5402000000 005847f80d000000 0024f40000000000`) +
		block(`02 00 01 02000000 04000000 07000000 01000000
			d307000000000000 4208000000000000 e803000000000000 7f05000000000000
			1405000000000000 1505000000000000 3608000000000000 3708000000000000
			4208000000000000 4308000000000000 7e05000000000000 7f05000000000000
			02000000 d307000000000000 e803000000000000 3708000000000000 1405000000000000
			02000000 de07000000000000 b704000000000000 4208000000000000 7f05000000000000`) +
		block(`02 01 00 00000000 01000000 00000000 02000000
			0000000000010000 0000000000010000 0000000000020000 0000000000020000
			00000000
			01000000 0000000000010000 0000000000020000`) +
		block(`03 0200000000000000`)
	if got := hex.EncodeToString(smallPair(t).Encode()); got != want {
		t.Errorf("Encode() =\n%s, want\n%s", got, want)
	}
}

// A pair that rests on a shared clock says so when it is stored. A pair that rests on none is
// stored in the earlier version.
func TestEncodeSharedClock(t *testing.T) {
	p := smallPair(t)
	plain := p.Encode()
	p.trains[1].stamps.Shared = 0x01020304
	b := p.Encode()
	if plain[8] != 2 || b[8] != 3 || len(b) != len(plain)+4*len(p.trains) ||
		!bytes.Contains(b, []byte{2, 0, 0, 0, 4, 3, 2, 1}) {
		t.Errorf("version %d, %d bytes; with a shared clock version %d, %d bytes", plain[8],
			len(plain), b[8], len(b))
	}
	if len(b) != p.EncodedBytes() {
		t.Errorf("%d bytes, EncodedBytes says %d", len(b), p.EncodedBytes())
	}
	got := mustReturn(DecodePair(b))(t)
	if !bytes.Equal(got.Encode(), b) || got.trains[1].stamps != p.trains[1].stamps {
		t.Errorf("decoded %+v, want %+v", got.trains[1], p.trains[1])
	}
}

// A file of each version stays readable. With -update the test writes the current version's file
// again: the simulated world of seed 1, pruned.
func TestDecodeGolden(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	x := newWorld(rng, 20, sine, 400*PPB, 10*time.Second, 26, 50)
	x.net = networks["lossy"]
	p := x.pair(t, declared(1*PPM), 6, 0.5)
	for i := range p.trains {
		p.trains[i].stamps = Stamps{Kernel: uint32(3 * i), User: uint32(i)}
	}
	p.Prune()
	name := filepath.Join("testdata", "v2.pair")
	if *update {
		if err := os.WriteFile(name, p.Encode(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data := mustReturn(os.ReadFile(name))(t)
	got := mustReturn(DecodePair(data))(t)
	if !reflect.DeepEqual(got, p) {
		t.Errorf("%s holds another pair than its recipe makes", name)
	}
	if !bytes.Equal(got.Encode(), data) {
		t.Errorf("%s decoded and encoded again is another file", name)
	}
	first := mustReturn(DecodePair(mustReturn(os.ReadFile(filepath.Join("testdata",
		"v1.pair")))(t)))(t)
	for i := range p.trains {
		p.trains[i].gathered, p.trains[i].stamps = 0, Stamps{}
	}
	if !reflect.DeepEqual(first, p) {
		t.Errorf("version 1 holds another pair than its recipe makes, without the counts")
	}
	// A stored pair can be evaluated again with another wander or into the other node.
	for _, into := range []Side{SideA, SideB} {
		for _, w := range []Wander{1 * PPM, 8 * PPM} {
			r := mustReturn(got.Relate(into, w))(t)
			if bad := x.countOutside(t, r, 500, 0, 20); bad > 0 || r.Wander != w {
				t.Errorf("into %s, %v: %d of 500 outside", r.Into.Name, r.Wander, bad)
			}
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	whole := smallPair(t).Encode()
	edit := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(whole)) }
	headerEnd := 12 + 8 + int(binary.LittleEndian.Uint32(whole[12:]))
	// reseal recomputes the checksum of the block at the given offset.
	reseal := func(b []byte, at int) []byte {
		n := int(binary.LittleEndian.Uint32(b[at:]))
		binary.LittleEndian.PutUint32(b[at+4+n:], crc32.Checksum(b[at:at+4+n], castagnoli))
		return b
	}
	for _, tc := range []struct {
		name string
		data []byte
		want error
	}{
		{"empty", nil, ErrTorn},
		{"other_file", []byte("\x7fELF and so on"), ErrNotPair},
		{"magic_cut", whole[:5], ErrTorn},
		{"version_cut", whole[:10], ErrTorn},
		{"later_version", edit(func(b []byte) []byte { b[8] = 4; return b }), ErrVersion},
		{"version_zero", edit(func(b []byte) []byte { b[8] = 0; return b }), ErrVersion},
		{"header_only", whole[:headerEnd], ErrTorn},
		{"last_byte_missing", whole[:len(whole)-1], ErrTorn},
		{"end_missing", whole[:len(whole)-17], ErrTorn},
		{"bit_flipped", edit(func(b []byte) []byte { b[headerEnd+20] ^= 4; return b }),
			ErrChecksum},
		{"length_flipped", edit(func(b []byte) []byte { b[headerEnd] ^= 1; return b }),
			ErrChecksum},
		{"length_enormous", edit(func(b []byte) []byte { b[headerEnd+3] = 0xff; return b }),
			ErrMalformed},
		{"bytes_after_end", append(bytes.Clone(whole), 0), ErrMalformed},
		{"train_unknown_kind",
			edit(func(b []byte) []byte { b[headerEnd+4] = 9; return reseal(b, headerEnd) }),
			ErrMalformed},
		{"train_readings_swapped", edit(func(b []byte) []byte {
			at := headerEnd + 4 + 19 + 32 + 64 + 4
			first := bytes.Clone(b[at : at+16])
			copy(b[at:], b[at+16:at+32])
			copy(b[at+16:], first)
			return reseal(b, headerEnd)
		}), ErrMalformed},
		{"train_more_than_gathered",
			edit(func(b []byte) []byte { b[headerEnd+4+7] = 3; return reseal(b, headerEnd) }),
			ErrMalformed},
		{"train_count_wrong",
			edit(func(b []byte) []byte { b[len(b)-12]--; return reseal(b, len(b)-17) }),
			ErrMalformed},
		{"no_window", edit(func(b []byte) []byte {
			clear(b[headerEnd-28 : headerEnd-20])
			return reseal(b, 12)
		}), ErrMalformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := DecodePair(tc.data)
			if !errors.Is(err, tc.want) || p != nil {
				t.Errorf("DecodePair = %v, %v, want %v", p, err, tc.want)
			}
		})
	}
}

func TestCheckEpochs(t *testing.T) {
	p := smallPair(t)
	if err := p.CheckEpochs("boot 1", ""); err != nil {
		t.Error(err)
	}
	for _, e := range [][2]string{{"boot 2", ""}, {"boot 1", "boot 1"}} {
		if err := p.CheckEpochs(e[0], e[1]); !errors.Is(err, ErrEpoch) {
			t.Errorf("CheckEpochs(%q, %q) = %v, want ErrEpoch", e[0], e[1], err)
		}
	}
}

// FuzzDecodePair looks for accepted input that changes when it is stored again, or that makes a
// method of the pair panic or return an invalid interval.
func FuzzDecodePair(f *testing.F) {
	f.Add(smallPair(f).Encode())
	rng := rand.New(rand.NewPCG(1, 0))
	x := newWorld(rng, 5, still, 0, 10*time.Second, 1, 0)
	x.net = networks["near and steady"]
	f.Add(x.pair(f, declared(1*PPM), 2, 0.5).Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := DecodePair(reseal(data))
		if err != nil {
			return
		}
		again := mustReturn(DecodePair(p.Encode()))(t)
		if !reflect.DeepEqual(p, again) {
			t.Fatal("a pair decoded, encoded and decoded is another pair")
		}
		if data[8] == fileVersion && !bytes.Equal(p.Encode(), reseal(data)) {
			t.Fatal("two files for one pair")
		}
		if len(p.trains) > 50 {
			return
		}
		callMethods(t, p)
	})
}

// FuzzRelate builds pairs from constraints that no real clock would give.
func FuzzRelate(f *testing.F) {
	for range 4 {
		f.Add([]byte("any bytes will do, as long as there are enough for a few trains of a few "+
			"constraints each: this is one"), uint8(20), uint8(30))
	}
	f.Add(bytes.Repeat([]byte{0, 1, 0, 9, 1, 1, 0, 9, 2, 9, 0, 9}, 20), uint8(36), uint8(63))
	f.Fuzz(func(t *testing.T, data []byte, spreadB, spreadA uint8) {
		a := Node{Name: "a", Nominal_hz: 2e9, Quantum_cycles: 1}
		b := Node{Name: "b", Nominal_hz: 3e9, Quantum_cycles: 1, CoreSlack_cycles: 100}
		p := mustReturn(NewPair(a, b, DefaultAssumptions()))(t)
		for len(data) >= 12 && len(p.trains) < 20 {
			at := uint64(binary.LittleEndian.Uint32(data)) << (spreadB % 32)
			var tr Train
			for i := range 1 + int(data[4]%3) {
				c := Constraint{
					Kind: Kind(data[5+i] & 1),
					B:    at + uint64(data[5+i]),
					A:    uint64(binary.LittleEndian.Uint32(data[8:])) << (spreadA % 33),
				}
				tr.OneWay = append(tr.OneWay, c)
			}
			p.Add(tr)
			data = data[12:]
		}
		if len(p.trains) > 0 {
			callMethods(t, p)
		}
	})
}

// callMethods calls every method of a pair. The constraints may be false, so the results may be
// false, too. But no method may panic or return an invalid interval.
func callMethods(t *testing.T, p *Pair) {
	p.Check()
	p.Prune()
	for _, into := range []Side{SideA, SideB} {
		r, err := p.Relate(into, p.Declared.Wander)
		if err != nil {
			continue
		}
		for _, k := range r.Knots() {
			if !k.Count.Valid() || k.Rate.Lo > k.Rate.Hi {
				t.Fatalf("knot %+v", k)
			}
		}
		l := r.Limits()
		c := r.Cursor()
		for _, y := range []uint64{l.Lo, l.Mid(), l.Hi} {
			i, err := r.Translate(y)
			if err == nil && !i.Valid() {
				t.Fatalf("Translate(%d) = %v", y, i)
			}
			if j, errCursor := c.Translate(y); i != j || (err == nil) != (errCursor == nil) {
				t.Fatalf("Translate(%d) = %v, by cursor %v", y, i, j)
			}
			if s, err := r.SameNode(l.Lo, y); err == nil && !s.Valid() {
				t.Fatalf("SameNode(%d, %d) = %v", l.Lo, y, s)
			}
		}
	}
}

// reseal corrects the checksums in data, up to the first block whose stated length exceeds the
// data. Without this, the decoder would refuse nearly all inputs of the fuzzer for their checksums.
func reseal(data []byte) []byte {
	b := bytes.Clone(data)
	for at := 12; at+8 <= len(b); {
		n := int(binary.LittleEndian.Uint32(b[at:]))
		if n > len(b)-at-8 {
			break
		}
		binary.LittleEndian.PutUint32(b[at+4+n:], crc32.Checksum(b[at:at+4+n], castagnoli))
		at += n + 8
	}
	return b
}
