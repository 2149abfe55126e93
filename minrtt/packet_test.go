package minrtt

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	testSecret = Secret{Number: 0x6162636465666768, Bytes: [keyBytes]byte{1, 2, 3}}
	testKey    = testSecret.Key(0x696a6b6c6d6e6f70)
	testID     = keyID{testKey.Secret, testKey.Prober}
)

// everyField returns a packet with a different value in each field.
func everyField(k packetKind) packet {
	p := packet{header: header{k, 0x0102030405060708, 0x090a0b0c, testID}}
	if k&answerBit == 0 {
		return p
	}
	p.body = body{
		received: stamp{0x1112131415161718, 0x191a1b1c1d1e1f20, Kernel},
		previous: 0x31323334,
		answered: stamp{0x2122232425262728, 0, Missing},
	}
	p.body.offersShared = k == kindOpen|answerBit || k == kindCloseShared|answerBit
	if k.closesTrain() {
		p.clock = clockReport{status: clockRelated, wander_ppb: 0x41424344, step_ns: 0x45464748,
			openingLength: 4, closingLength: 3}
		for i := range uint64(maxBrackets) {
			b := 0x5051525354555600 + 0x100*i
			p.clock.opening[i] = bracket{b, int64(b + 1), b + 2}
			p.clock.closing[i] = bracket{b + 3, int64(b + 4), b + 5}
		}
	}
	if k == kindCloseShared|answerBit {
		p.shared = sharedReport{name: sharedName{0xa1, 0xa2, 15: 0xaf}, clock: p.clock}
		p.shared.clock.wander_ppb, p.shared.clock.openingLength = 0x61626364, 2
		p.shared.clock.opening[0].before_cycles = 0x7172737475767778
	}
	return p
}

var allKinds = []packetKind{kindOpen, kindProbe, kindClose, kindOpen | answerBit,
	kindProbe | answerBit, kindClose | answerBit, kindCloseShared, kindCloseShared | answerBit}

var allowUnexported = cmp.AllowUnexported(packet{}, header{}, keyID{}, body{}, stamp{},
	clockReport{}, bracket{}, sharedReport{})

func TestPacketRoundTrip(t *testing.T) {
	for _, k := range allKinds {
		want := everyField(k)
		b := testKey.codecUnder().append(nil, &want)
		var got packet
		if err := testKey.codecUnder().parse(b, &got); err != nil {
			t.Errorf("kind %d: %v", k, err)
		}
		if diff := cmp.Diff(want, got, allowUnexported); diff != "" {
			t.Errorf("kind %d (-want +got):\n%s", k, diff)
		}
	}
}

// The expected bytes follow FORMAT.md and were assembled by hand. The authentication codes were
// computed with Python's hmac module.
func TestPacketBytes(t *testing.T) {
	const head = "4d525454 02 %s 0000 0102030405060708 090a0b0c"
	const key = "6162636465666768 696a6b6c6d6e6f70 0000"
	const offers = "6162636465666768 696a6b6c6d6e6f70 0100"
	answered := head + "1112131415161718 191a1b1c1d1e1f20 2122232425262728 0000000000000000 " +
		"31323334 01 03"
	clock := "01 04 03 00 41424344 45464748" +
		"5051525354555600 5051525354555601 5051525354555602" +
		"5051525354555700 5051525354555701 5051525354555702" +
		"5051525354555800 5051525354555801 5051525354555802" +
		"5051525354555900 5051525354555901 5051525354555902" +
		"5051525354555603 5051525354555604 5051525354555605" +
		"5051525354555703 5051525354555704 5051525354555705" +
		"5051525354555803 5051525354555804 5051525354555805" +
		"5051525354555903 5051525354555904 5051525354555905"
	shared := strings.Replace(strings.Replace(strings.Replace(clock, "01 04 03", "01 02 03", 1),
		"41424344", "61626364", 1), "5051525354555600", "7172737475767778", 1)
	for _, tc := range []struct {
		kind        packetKind
		bytes, code string
	}{
		{kindOpen, fmt.Sprintf(head, "01") + strings.Repeat("00", 38) + key,
			"31f419362067f4ac6fb4317bbd104fd8"},
		{kindProbe, fmt.Sprintf(head, "02") + strings.Repeat("00", 38) + key,
			"e67a0dc8b1eb348629b7576653f38c4b"},
		{kindClose,
			fmt.Sprintf(head, "03") + strings.Repeat("00", 38) + key + strings.Repeat("00", 204),
			"6d2428c9e147c30b603df28a34a12521"},
		{kindOpen | answerBit, fmt.Sprintf(answered, "81") + offers,
			"99b8063b27ce5409b0d505293c528349"},
		{kindProbe | answerBit, fmt.Sprintf(answered, "82") + key,
			"80b1ae9c499e58f1b28118ca468f307d"},
		{kindClose | answerBit, fmt.Sprintf(answered, "83") + key + clock,
			"c5f7a877109c015d582dfecd64a71009"},
		{kindCloseShared,
			fmt.Sprintf(head, "04") + strings.Repeat("00", 38) + key +
				strings.Repeat("00", 424),
			"50f737fe5f82cc36786ff6c4b62d15b0"},
		{kindCloseShared | answerBit, fmt.Sprintf(answered, "84") + offers + clock +
			"a1a2000000000000 00000000000000af" + shared, "54b42e093072db53d080629a2cab2115"},
	} {
		p := everyField(tc.kind)
		got := hex.EncodeToString(newCodec([]byte("a key for tests")).append(nil, &p))
		want := strings.ReplaceAll(tc.bytes, " ", "") + tc.code
		if got != want {
			t.Errorf("kind %d:\n got %s\nwant %s", tc.kind, got, want)
		}
		if len(got)/2 != tc.kind.size() {
			t.Errorf("kind %d: %d bytes, want %d", tc.kind, len(got)/2, tc.kind.size())
		}
	}
}

// FORMAT.md and the code state the same numbers.
func TestFormatDocument(t *testing.T) {
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	table := regexp.MustCompile(`(?m)^\| (.*) \|`)
	for _, row := range table.FindAllStringSubmatch(string(text), -1) {
		cells := strings.Split(row[1], " | ")
		rows[strings.Join(cells[:min(2, len(cells))], "|")] = true
	}
	want := []string{
		fmt.Sprintf("%d|%d", headerSize, bodySize),
		fmt.Sprintf("%d|%d or 0", headerSize+bodySize, clockSize),
		fmt.Sprintf("%d|8", keyOffset),
		fmt.Sprintf("%d|8", keyOffset+8),
		fmt.Sprintf("last %d|%d", macSize, macSize),
		fmt.Sprintf("%d|%d", headerSize+bodySize+clockHeader, maxBrackets*bracketSize),
		fmt.Sprintf("%d|1", offersOffset),
		fmt.Sprintf("%d|%d", headerSize+bodySize+clockSize, nameSize),
		fmt.Sprintf("%d|%d", headerSize+bodySize+clockSize+nameSize, clockSize),
		fmt.Sprintf("%d|%d",
			headerSize+bodySize+clockHeader+maxBrackets*bracketSize, maxBrackets*bracketSize),
	}
	for _, k := range allKinds {
		name := map[packetKind]string{kindOpen: "open", kindProbe: "probe",
			kindClose: "close", kindCloseShared: "close shared"}[k&^answerBit]
		if k&answerBit != 0 {
			name += " answer"
		}
		want = append(want, fmt.Sprintf("%d|%s", k, name))
	}
	for _, row := range want {
		if !rows[row] {
			t.Errorf("FORMAT.md has no row %q", row)
		}
	}
	for _, sentence := range []string{
		fmt.Sprintf("are %d bytes long, those of kinds", longSize),
		fmt.Sprintf("are %d bytes long, and all others %d.", longestSize, shortSize),
		fmt.Sprintf("describes version %d.", version),
		fmt.Sprintf("%d: there is none", uint32(noSequence)),
		fmt.Sprintf("at most %d", maxBrackets),
	} {
		if !strings.Contains(string(text), sentence) {
			t.Errorf("FORMAT.md does not say %q", sentence)
		}
	}
	_, list, _ := strings.Cut(string(text), "## Sources")
	list, _, _ = strings.Cut(list, "##")
	for s := range Source(sources) {
		if !strings.Contains(list, fmt.Sprintf("\n| %d | ", s)) {
			t.Errorf("FORMAT.md does not list source %d", s)
		}
	}
	if strings.Contains(list, fmt.Sprintf("\n| %d | ", sources)) {
		t.Errorf("FORMAT.md lists source %d", sources)
	}
}

func TestParseRefuses(t *testing.T) {
	p := everyField(kindProbe | answerBit)
	good := testKey.codecUnder().append(nil, &p)
	long := everyField(kindClose | answerBit)
	goodLong := testKey.codecUnder().append(nil, &long)
	sealed := func(b []byte, change func(b []byte)) []byte {
		b = bytes.Clone(b)
		change(b)
		c := testKey.codecUnder()
		c.authenticate(b[:len(b)-macSize])
		copy(b[len(b)-macSize:], c.sum[:macSize])
		return b
	}
	for _, tc := range []struct {
		name  string
		bytes []byte
		want  error
	}{
		{"nothing", nil, errForeign},
		{"half of the magic", good[:2], errForeign},
		{"another magic", sealed(good, func(b []byte) { b[3] = 'X' }), errForeign},
		{"the magic alone", good[:4], errShort},
		{"half of the header", good[:headerSize-1], errShort},
		{"header alone", good[:headerSize], errShort},
		{"one byte short", good[:len(good)-1], errShort},
		{"one byte more", append(bytes.Clone(good), 0), errLong},
		{"a close as short as a probe",
			sealed(good, func(b []byte) { b[5] = byte(kindClose | answerBit) }), errShort},
		{"a probe as long as a close",
			sealed(goodLong, func(b []byte) { b[5] = byte(kindProbe | answerBit) }), errLong},
		{"version 0", sealed(good, func(b []byte) { b[4] = 0 }), errVersion},
		{"version 1", sealed(good, func(b []byte) { b[4] = 1 }), errVersion},
		{"version 3", sealed(good, func(b []byte) { b[4] = 3 }), errVersion},
		{"kind 0", sealed(good, func(b []byte) { b[5] = 0 }), errKind},
		{"kind 5", sealed(good, func(b []byte) { b[5] = 5 }), errKind},
		{"kind 133", sealed(good, func(b []byte) { b[5] = 133 }), errKind},
		{"source 6", sealed(good, func(b []byte) { b[57] = 6 }), errContent},
		{"kernel stamp without a time", sealed(good, func(b []byte) { b[57] = 1 }), errContent},
		{"time without a kernel stamp", sealed(good, func(b []byte) { b[56] = 0 }), errContent},
		{"clock status 3", sealed(goodLong, func(b []byte) { b[76] = 3 }), errContent},
		{"five opening brackets", sealed(goodLong, func(b []byte) { b[77] = 5 }), errContent},
		{"five closing brackets", sealed(goodLong, func(b []byte) { b[78] = 5 }), errContent},
	} {
		var got packet
		if err := testKey.codecUnder().parse(tc.bytes, &got); !errors.Is(err, tc.want) {
			t.Errorf("%s: error = %v, want %v", tc.name, err, tc.want)
		}
	}
	// If any one bit of a packet is flipped, the packet is refused.
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			var got packet
			if err := testKey.codecUnder().parse(b, &got); err == nil {
				t.Errorf("byte %d, bit %d flipped: accepted", i, bit)
			}
		}
	}
	var got packet
	if err := newCodec([]byte("another")).parse(good, &got); !errors.Is(err, errMAC) {
		t.Errorf("another key: error = %v, want %v", err, errMAC)
	}
}

// A packet that parse accepts means the same when it is encoded again. No packet with a wrong
// authentication code is accepted. The fuzz target computes the codes itself, because a fuzzer
// cannot find an HMAC by chance.
func FuzzPacket(f *testing.F) {
	for _, k := range allKinds {
		p := everyField(k)
		b := testKey.codecUnder().append(nil, &p)
		f.Add(b[:len(b)-macSize])
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		c := testKey.codecUnder()
		var p packet
		if err := c.parse(message, &p); err == nil {
			t.Fatal("accepted without a code")
		}
		c.authenticate(message)
		sealed := append(bytes.Clone(message), c.sum[:macSize]...)
		if err := c.parse(sealed, &p); err != nil {
			return
		}
		if len(sealed) != p.kind.size() {
			t.Fatalf("%d bytes accepted as kind %d", len(sealed), p.kind)
		}
		again := c.append(nil, &p)
		var q packet
		if err := c.parse(again, &q); err != nil {
			t.Fatalf("encoded again: %v", err)
		}
		if p != q {
			t.Fatalf("encoded again it means %+v, not %+v", q, p)
		}
	})
}
