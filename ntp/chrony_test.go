package ntp

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// putFloat encodes a number as chrony's source does. It is the inverse of decodeFloat.
func putFloat(v float64) uint32 {
	if v == 0 {
		return 0
	}
	fraction, exponent := math.Frexp(math.Abs(v)) // fraction is at least 0.5 and below 1
	coefficient := int32(fraction * (1 << 24))
	exponent++
	if v < 0 {
		coefficient = -coefficient
	}
	return uint32(exponent)<<25 | uint32(coefficient)&(1<<25-1)
}

// reply returns a reply to the command "tracking", with a different value in each field.
func reply(sequence uint32) []byte {
	b := make([]byte, packetBytes)
	b[0], b[1] = 6, 2
	binary.BigEndian.PutUint16(b[4:], 33)
	binary.BigEndian.PutUint16(b[6:], 5)
	binary.BigEndian.PutUint32(b[16:], sequence)
	t := b[28:]
	binary.BigEndian.PutUint32(t[0:], 0xC0000201)
	copy(t[4:], []byte{192, 0, 2, 1})
	binary.BigEndian.PutUint16(t[20:], 1)
	binary.BigEndian.PutUint16(t[24:], 3)
	binary.BigEndian.PutUint16(t[26:], 1)
	binary.BigEndian.PutUint32(t[28:], 0)
	binary.BigEndian.PutUint32(t[32:], 1_700_000_000)
	binary.BigEndian.PutUint32(t[36:], 5)
	for at, v := range map[int]float64{40: -0.25, 44: 77, 48: 77, 52: -12.5, 56: 77, 60: 0.5,
		64: 1.0 / 64, 68: 1.0 / 128, 72: 77} {
		binary.BigEndian.PutUint32(t[at:], putFloat(v))
	}
	return b
}

var toldValues = Claim{
	Offset_ns: -250_000_000, RootDelay_ns: 15_625_000, RootDispersion_ns: 7_812_500,
	Frequency_ppt: -12_500_000, Skew_ppt: 500_000, Stratum: 3, Leap: LeapInsert,
	ReferenceID: 0xC0000201, Source: netip.MustParseAddr("192.0.2.1"),
	Updated: time.Unix(1_700_000_000, 5).UTC(),
}

var comparer = cmpopts.EquateComparable(netip.Addr{})

func TestDecode(t *testing.T) {
	got, err := decode(reply(9), 9)
	if diff := cmp.Diff(toldValues, got, comparer); err != nil || diff != "" {
		t.Error(err, diff)
	}
	v6 := reply(9)
	copy(v6[32:], net.ParseIP("2001:db8::1"))
	binary.BigEndian.PutUint16(v6[48:], 2)
	if got, err := decode(v6, 9); err != nil || got.Source != netip.MustParseAddr("2001:db8::1") {
		t.Error(got.Source, err)
	}
}

// Rounding to whole ns makes a bound wider, never narrower. A value that does not fit its field is
// refused.
func TestDecodeRoundsOutward(t *testing.T) {
	with := func(values map[int]float64) []byte {
		b := reply(9)
		for at, v := range values {
			binary.BigEndian.PutUint32(b[replyHeader+at:], putFloat(v))
		}
		return b
	}
	for _, sign := range []float64{1, -1} {
		c, err := decode(with(map[int]float64{40: sign * 1.2e-9, 60: 1.2e-6, 64: 1.2e-9,
			68: 2.2e-9}), 9)
		if err != nil || c.Offset_ns != int64(sign*2) || c.Skew_ppt != 2 || c.RootDelay_ns != 2 ||
			c.RootDispersion_ns != 3 {
			t.Errorf("%+v, %v", c, err)
		}
	}
	for _, at := range []int{40, 64, 68} {
		if c, err := decode(with(map[int]float64{at: 1e10}), 9); !errors.Is(err, ErrReply) {
			t.Errorf("at byte %d: %+v, %v", at, c, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	change := func(at int, v byte) []byte { b := reply(9); b[at] = v; return b }
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":           {nil, ErrReply},
		"a header's length": {reply(9)[:28], ErrReply},
		"a byte short":      {reply(9)[:packetBytes-1], ErrReply},
		"another version":   {change(0, 5), ErrReply},
		"a request":         {change(1, 1), ErrReply},
		"another command":   {change(5, 34), ErrReply},
		"another reply":     {change(7, 6), ErrReply},
		"another sequence":  {change(19, 8), ErrReply},
		"not authorised":    {change(9, 2), ErrRefused},
		"negative dispersion": {binary.BigEndian.AppendUint32(reply(9)[:28+68], putFloat(-1)),
			ErrReply},
	} {
		if len(c.b) == 28+72 {
			c.b = append(c.b, 0, 0, 0, 0)
		}
		if _, err := decode(c.b, 9); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// The expected values come from chrony's own function UTI_FloatNetworkToHost.
func TestFloat(t *testing.T) {
	for w, want := range map[uint32]float64{
		0: 0, 0x00000001: 0x1p-25, 0x01ffffff: -0x1p-25, 0x02800000: 0.5, 0x05000000: -2,
		0xfe800000: 0.125, 0x7fffffff: -0x1p38, 0x80ffffff: (1<<24 - 1) * 0x1p-89,
	} {
		if got := decodeFloat(w); got != want {
			t.Errorf("%#08x is %g, want %g", w, got, want)
		}
	}
}

func TestMoment(t *testing.T) {
	for _, c := range []struct {
		high, low, nsec uint32
		want            time.Time
	}{
		{0, 0, 0, time.Time{}},
		{0, 1, 2, time.Unix(1, 2).UTC()},
		{0x7fffffff, 1, 2, time.Unix(1, 2).UTC()},
		{1, 0, 0, time.Unix(1<<32, 0).UTC()},
		{0, 1, 1_000_000_000, time.Time{}},
	} {
		if got := decodeTime(c.high, c.low, c.nsec); !got.Equal(c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestBound(t *testing.T) {
	with := func(change func(*Claim)) Claim { c := toldValues; change(&c); return c }
	for name, c := range map[string]struct {
		claim Claim
		want  uint64
		ok    bool
	}{
		"offset, dispersion and half of the delay": {toldValues,
			250_000_000 + 7_812_500 + 7_812_500,
			true},
		"a positive offset": {with(func(c *Claim) {
			c.Offset_ns, c.RootDelay_ns, c.RootDispersion_ns = 5, 3, 0
		}), 7, true},
		"too much": {with(func(c *Claim) {
			c.Offset_ns, c.RootDispersion_ns = math.MinInt64, math.MaxUint64
		}), math.MaxUint64, true},
		"no source":      {with(func(c *Claim) { c.Stratum = 0 }), 0, false},
		"stratum 16":     {with(func(c *Claim) { c.Stratum = 16 }), 0, false},
		"unsynchronised": {with(func(c *Claim) { c.Leap = LeapUnsynchronised }), 0, false},
		"zero":           {Claim{}, 0, false},
	} {
		if got, ok := c.claim.Bound_ns(); got != c.want || ok != c.ok {
			t.Errorf("%s: %d, %v; want %d, %v", name, got, ok, c.want, c.ok)
		}
	}
}

// daemon starts a daemon that sends what answer returns. If answer returns nil, the daemon does not
// answer that attempt.
func daemon(t *testing.T, answer func(attempt int, request []byte) []byte) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		b := make([]byte, 1000)
		for attempt := 0; ; attempt++ {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			if a := answer(attempt, b[:n]); a != nil {
				conn.WriteTo(a, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

func sequenceOf(request []byte) uint32 { return binary.BigEndian.Uint32(request[8:]) }

func TestAsk(t *testing.T) {
	address := daemon(t, func(attempt int, request []byte) []byte {
		if len(request) != packetBytes || request[0] != 6 || request[1] != 1 || request[5] != 33 ||
			request[7] != byte(attempt) {
			t.Errorf("request % x", request)
		}
		if attempt == 0 {
			return nil // as if the request were lost
		}
		return reply(sequenceOf(request))
	})
	got, err := Ask(t.Context(), address)
	if diff := cmp.Diff(toldValues, got, comparer); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestAskWhereNobodyAnswers(t *testing.T) {
	silent := daemon(t, func(int, []byte) []byte { return nil })
	begin := time.Now()
	if _, err := Ask(t.Context(), silent); !errors.Is(err, ErrNoDaemon) {
		t.Error(err)
	}
	if took := time.Since(begin); took > 3*maxWait {
		t.Errorf("it took %s", took)
	}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := conn.LocalAddr().String()
	conn.Close()
	if _, err := Ask(t.Context(), closed); !errors.Is(err, ErrNoDaemon) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Ask(ctx, silent); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := Ask(t.Context(), "nonsense"); err == nil {
		t.Error("an address without a port was taken")
	}
}

// Whatever bytes arrive, a claim's bound is at least as large as each of its parts.
func FuzzDecode(f *testing.F) {
	f.Add(reply(9))
	f.Add(reply(9)[:50])
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decode(b, 9)
		if err != nil {
			return
		}
		bound, ok := c.Bound_ns()
		if ok && (bound < c.RootDispersion_ns || bound < c.RootDelay_ns/2 ||
			c.Offset_ns > 0 && bound < uint64(c.Offset_ns)) {
			t.Errorf("bound %d of %+v", bound, c)
		}
	})
}
