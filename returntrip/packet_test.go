package returntrip

import (
	"bytes"
	"errors"
	"testing"
)

func TestPacketBytes(t *testing.T) {
	want := []byte{
		'R', 'E', 'T', 'P', 1, 2, 0, 0,
		0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
		0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x01,
	}
	var b [packetSize]byte
	packet{kindEcho, 0x1122334455667788, 0x99aabbccddeeff01}.put(&b)
	if !bytes.Equal(b[:], want) {
		t.Errorf("packet % x\nwant   % x", b, want)
	}
	if id, err := parse(want, kindEcho, 0x1122334455667788); err != nil ||
		id != 0x99aabbccddeeff01 {
		t.Errorf("parse: id %x, %v", id, err)
	}
}

func TestParseRefuses(t *testing.T) {
	change := func(at int, to byte) []byte {
		var b [packetSize]byte
		packet{kindEcho, 7, 9}.put(&b)
		b[at] = to
		return b[:]
	}
	for name, test := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":        {nil, errSize},
		"short":          {change(0, 'R')[:packetSize-1], errSize},
		"long":           {append(change(0, 'R'), 0), errSize},
		"other magic":    {change(3, 'Q'), errForeign},
		"other version":  {change(4, 2), errVersion},
		"the other kind": {change(5, 1), errKind},
		"unknown kind":   {change(5, 3), errKind},
		"other stream":   {change(15, 8), errStream},
	} {
		if _, err := parse(test.b, kindEcho, 7); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	if _, err := parse(change(6, 99), kindEcho, 7); err != nil {
		t.Errorf("with other ignored bytes: %v", err)
	}
}

// If parse accepts a packet, put writes the same bytes again, except for the bytes that parse
// ignores.
func FuzzParse(f *testing.F) {
	var b [packetSize]byte
	packet{kindEcho, 7, 9}.put(&b)
	f.Add(b[:], uint8(kindEcho), uint64(7))
	f.Add([]byte("RETP"), uint8(kindAcknowledgement), uint64(0))
	f.Fuzz(func(t *testing.T, in []byte, k uint8, stream uint64) {
		id, err := parse(in, kind(k), stream)
		if err != nil {
			return
		}
		var out [packetSize]byte
		packet{kind(k), stream, id}.put(&out)
		out[6], out[7] = in[6], in[7]
		if !bytes.Equal(in, out[:]) {
			t.Errorf("% x was taken for % x", in, out)
		}
	})
}
