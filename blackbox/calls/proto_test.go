package calls

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// protoText returns an export request with one span of each of two programs.
func protoText() []byte {
	message := func(to []byte, number protowire.Number, inner []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), inner)
	}
	id := func(text string) []byte { raw, _ := hex.DecodeString(text); return raw }
	attribute := func(key, value string) []byte {
		any := message(nil, 1, []byte(value))
		return message(message(nil, 1, []byte(key)), 2, any)
	}
	resource := func(service string, span []byte) []byte {
		r := message(nil, 1, message(nil, 1, attribute("service.name", service)))
		return message(r, 2, message(nil, 2, span))
	}
	span := func(number, parent string, kind, from, to uint64) []byte {
		s := message(nil, 1, id("5b8aa5a2d2c872e8321cf37308d69df2"))
		s = message(s, 2, id(number))
		if parent != "" {
			s = message(s, 4, id(parent))
		}
		s = message(s, 5, []byte("name"))
		s = protowire.AppendVarint(protowire.AppendTag(s, 6, protowire.VarintType), kind)
		s = protowire.AppendFixed64(protowire.AppendTag(s, 7, protowire.Fixed64Type), from)
		s = protowire.AppendFixed64(protowire.AppendTag(s, 8, protowire.Fixed64Type), to)
		s = protowire.AppendTag(s, 16, protowire.Fixed32Type)
		return protowire.AppendFixed32(s, 1) // flags
	}
	all := message(nil, 1, resource("front",
		span("00000000000000a1", "", 2, 100_000, 1_000_000)))
	return message(all, 1,
		resource("back", span("00000000000000b1", "00000000000000a1", 2, 170_000, 670_000)))
}

// Protocol buffers of OpenTelemetry are read: bare, compressed, and with their lengths in front.
func TestProto(t *testing.T) {
	want := []string{"outside→front ? 100 1000 ? cause -1", "front→back ? 170 670 ? cause 0"}
	raw := protoText()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(raw)
	z.Close()
	long := append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)
	for name, data := range map[string][]byte{
		"bare": raw, "compressed": packed.Bytes(), "lengths": append(long, long...),
	} {
		if diff := cmp.Diff(want, read(t, OTLP, string(data))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for cut := range len(raw) { // no part of a file is taken for the whole
		b := newBuilder()
		if b.protoFile(raw[:cut]) && b.set.Oddities.Spans > 1 {
			t.Errorf("the first %d of %d bytes count as both spans", cut, len(raw))
		}
	}
}

// Other binary files are not read as traces. If the caller names one, the error says that it is no
// protocol buffer.
func TestNoProto(t *testing.T) {
	random := seed.Random(t)
	for range 2000 {
		raw := make([]byte, random.IntN(60))
		for i := range raw {
			raw[i] = byte(random.IntN(256))
		}
		newBuilder().protoFile(raw)
	}
	for _, broken := range []string{
		"\x0a\x05\x12\x03\x12\x01\xff", // a span that is not a message
		"\x0a\x03\x12\x01\xff",         // a list of spans that is not a message
	} {
		if newBuilder().protoFile([]byte(broken)) {
			t.Errorf("%q counts as a request with spans", broken)
		}
	}
	name := filepath.Join(t.TempDir(), "x.pb")
	if err := os.WriteFile(name, []byte("\x1f\x00\xff image"), 0o600); err != nil {
		t.Fatal(err)
	}
	for format, part := range map[Format]string{
		OTLP: "begins like no JSON, and is no protocol buffer", Jaeger: "begins like no JSON",
	} {
		if _, err := Read(format, name); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %q", format, err, part)
		}
	}
}
