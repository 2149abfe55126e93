package wire

import (
	"bytes"
	"crypto/ecdh"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/overlay"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// examples contains one message of each kind. No two fields have the same value.
var examples = []struct {
	m    any
	want string
}{
	{overlay.Ping{Seq: 1, Walk: 2}, "01" + "0000000000000001" + "0000000000000002"},
	{overlay.Pong{Seq: 3, OK: true}, "02" + "0000000000000003" + "01"},
	{overlay.Drop{}, "03"},
	{overlay.Probe{}, "04"},
	{overlay.Alive{}, "05"},
	{overlay.Ack{ID: 4, OK: true}, "06" + "0000000000000004" + "01"},
	{overlay.Hop{ID: 5, Walk: overlay.Seek{Origin: "o", ID: 6, In: true, Give: "gi", Apart: true,
		Mix: 7, Scan: 256, Revisits: 8, Outs: []overlay.Name{"x", "yz"}}},
		"07" + "0000000000000005" + "01" + "016f" + "0000000000000006" + "06" + "026769" + "0007" +
			"0100" + "0008" + "02" + "0178" + "02797a"},
	{overlay.Grant{ID: 9, Walk: 10, Out: "u", Give: true},
		"08" + "0000000000000009" + "000000000000000a" + "0175" + "02"},
	{overlay.Revoke{ID: 11, Out: "v"}, "09" + "000000000000000b" + "0176"},
	{overlay.Handover{ID: 12, To: "w"}, "0a" + "000000000000000c" + "0177"},
	{overlay.Leaving{ID: 13, Instead: "k"}, "0b" + "000000000000000d" + "016b"},
	{overlay.Ended{ID: 14, Walk: 15, Few: true},
		"0c" + "000000000000000e" + "000000000000000f" + "01"},
	{overlay.Hint{Owner: "o", Levels: 2, Facts: []overlay.Fact{"a=b", "c"}},
		"0d" + "016f" + "02" + "02" + "03613d62" + "0163"},
	{overlay.Verify{ID: 16, Pattern: "a*"}, "0e" + "0000000000000010" + "02612a"},
	{overlay.Confirm{ID: 26, Fact: "f=g"}, "10" + "000000000000001a" + "03663d67"},
	{overlay.Found{ID: 17, Search: 18, Name: "f", Visited: 257, Meetings: 19},
		"0f" + "0000000000000011" + "0000000000000012" + "0166" + "0101" + "0013"},
	{overlay.Hop{ID: 20, Walk: overlay.Search{Origin: "o", ID: 21, Pattern: "p",
		Known: []overlay.Name{"k", "l"}, Denied: []overlay.Name{"d"}, Visited: 22, Meetings: 23,
		Mix: 24, Scan: 25}},
		"07" + "0000000000000014" + "02" + "016f" + "0000000000000015" + "0170" + "02" + "016b" +
			"016c" + "01" + "0164" + "0016" + "0017" + "0018" + "0019"},
	{overlay.Warm{Heats: []overlay.Heat{{By: "h", Value: 27}, {By: "ij", Value: 28}}},
		"11" + "02" + "0168" + "000000000000001b" + "02696a" + "000000000000001c"},
	{overlay.Felt{ID: 29, Climb: 30, Value: 31, Visited: 32},
		"12" + "000000000000001d" + "000000000000001e" + "000000000000001f" + "0020"},
	{overlay.Hop{ID: 33, Walk: overlay.Climb{Origin: "o", ID: 34, By: "b", Visited: 35, Mix: 36,
		Scan: 37}}, "07" + "0000000000000021" + "03" + "016f" + "0000000000000022" + "0162" +
		"0023" + "0024" + "0025"},
	{overlay.Take{ID: 38, Queue: "q"}, "16" + "0000000000000026" + "0171"},
	{overlay.Given{ID: 39, Item: "it"}, "17" + "0000000000000027" + "026974"},
	{overlay.Keep{ID: 40, Take: 41, Done: true},
		"18" + "0000000000000028" + "0000000000000029" + "01"},
	{Fetch{ID: 42, Run: "r", File: 43, Offset: 44, Bytes: 45}, "19" + "000000000000002a" + "0172" +
		"002b" + "000000000000002c" + "002d"},
	{Part{ID: 46, Offset: 47, Size: 48, OK: true, Data: []byte{49}}, "1a" + "000000000000002e" +
		"000000000000002f" + "0000000000000030" + "01" + "31"},
	{Question{}, "14"},
	{Answer{[]byte("{}")}, "15" + "7b7d"},
}

func TestBytesOfMessages(t *testing.T) {
	for _, e := range examples {
		b, err := Encode(nil, e.m)
		if got := hex.EncodeToString(b); got != e.want || err != nil {
			t.Errorf("%T: %s, %v, want %s", e.m, got, err, e.want)
		}
		m, err := Decode(b)
		if d := cmp.Diff(e.m, m); d != "" || err != nil {
			t.Errorf("%T comes back with %v as\n%s", e.m, err, d)
		}
		for i := range b {
			if _, isAnswer := e.m.(Answer); isAnswer && i > 0 {
				break
			}
			if _, isPart := e.m.(Part); isPart && i == len(b)-1 {
				break // a part without data
			}
			if _, err := Decode(b[:i]); !errors.Is(err, ErrMessage) {
				t.Errorf("%T cut to %d bytes: %v", e.m, i, err)
			}
		}
	}
	for _, m := range []any{
		nil, 7, overlay.Hop{}, Answer{make([]byte, MaxAnswer+1)},
		overlay.Revoke{Out: overlay.Name(make([]byte, overlay.MaxName+1))},
		overlay.Hop{Walk: overlay.Seek{Outs: make([]overlay.Name, overlay.MaxDegree+1)}},
		overlay.Hop{Walk: overlay.Search{Known: make([]overlay.Name, overlay.MaxDegree+2)}},
		overlay.Hop{Walk: overlay.Search{Denied: make([]overlay.Name, overlay.MaxDenied+1)}},
		overlay.Hop{Walk: overlay.Search{Pattern: strings.Repeat("p", overlay.MaxFact+1)}},
		overlay.Verify{Pattern: strings.Repeat("p", overlay.MaxFact+1)},
		overlay.Confirm{Fact: overlay.Fact(strings.Repeat("p", overlay.MaxFact+1))},
		Fetch{Run: strings.Repeat("p", overlay.MaxFact+1)}, Fetch{Bytes: MaxFetch + 1},
		Part{Data: make([]byte, MaxPart+1)},
		overlay.Take{Queue: strings.Repeat("p", overlay.MaxFact+1)},
		overlay.Given{Item: strings.Repeat("p", overlay.MaxFact+1)},
		overlay.Warm{Heats: make([]overlay.Heat, overlay.MaxHeats+1)},
		overlay.Warm{Heats: []overlay.Heat{{By: strings.Repeat("p", overlay.MaxFact+1)}}},
		overlay.Hop{Walk: overlay.Climb{By: strings.Repeat("p", overlay.MaxFact+1)}},
		overlay.Hop{Walk: overlay.Climb{
			Origin: overlay.Name(make([]byte, overlay.MaxName+1))}},
		overlay.Found{Name: overlay.Name(make([]byte, overlay.MaxName+1))},
		overlay.Hint{Owner: overlay.Name(make([]byte, overlay.MaxName+1))},
		overlay.Hint{Facts: make([]overlay.Fact, overlay.MaxFacts+1)},
		overlay.Hint{Facts: []overlay.Fact{overlay.Fact(make([]byte, overlay.MaxFact+1))}},
	} {
		if _, err := Encode(nil, m); !errors.Is(err, ErrMessage) {
			t.Errorf("encodes %T: %v", m, err)
		}
	}
	for _, text := range []string{"00", "13", "1f", "0301", "020000000000000003" + "02",
		"0d" + "00" + "01" + "21" + strings.Repeat("0161", overlay.MaxFacts+1),
		"0e" + "0000000000000010" + "81" + strings.Repeat("61", overlay.MaxFact+1),
		"07" + "0000000000000014" + "04",
		"11" + "05" + strings.Repeat("0161"+"0000000000000001", overlay.MaxHeats+1),
		"15" + strings.Repeat("00", MaxAnswer+1),
		"19" + "000000000000002a" + "0172" + "002b" + "000000000000002c" + "4001",
		"1a" + strings.Repeat("00", 8+8+8+1+MaxPart+1)} {
		b, _ := hex.DecodeString(text)
		if m, err := Decode(b); !errors.Is(err, ErrMessage) {
			t.Errorf("decodes %s as %+v, %v", text[:4], m, err)
		}
	}
}

// FuzzMessage checks that a decoded message, encoded again, has the same bytes as before.
func FuzzMessage(f *testing.F) {
	for _, e := range examples {
		b, _ := hex.DecodeString(e.want)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		if again, err := Encode(nil, m); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x is %+v, and then %x, %v", b, m, again, err)
		}
	})
}

// member returns a socket without a network. Its keys depend only on the given number.
func member(t testing.TB, number byte) *Socket {
	t.Helper()
	private, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{number}, 32))
	if err != nil {
		t.Fatal(err)
	}
	i, err := newIdentity(fmt.Sprintf("node%d", number),
		netip.MustParseAddrPort(fmt.Sprintf("192.0.2.%d:4100", number)), private)
	if err != nil {
		t.Fatal(err)
	}
	return newSocket(i, nil)
}

func issuer(t testing.TB, number byte) *Issuer {
	t.Helper()
	i, err := NewIssuer(bytes.Repeat([]byte{number}, SeedBytes))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func admit(t testing.TB, by *Issuer, all ...*Socket) {
	t.Helper()
	for _, s := range all {
		if err := s.Use([][]byte{by.Public()}, by.Sign(s.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

func seal(t testing.TB, from, to *Socket, m any) []byte {
	t.Helper()
	b, address, err := from.seal(to.Name(), m)
	if card, _ := ParseName(to.Name()); err != nil || address != card.Address {
		t.Fatalf("%v, to %v", err, address)
	}
	return b
}

func TestBytesOfDatagram(t *testing.T) {
	a, b := member(t, 1), member(t, 2)
	admit(t, issuer(t, 3), a, b)
	const want = "43504f56" + "01" + "000000" + // magic, version
		"e986a11479e3e8134b63e322e59bfb50795955659894d77f4e7fcfddaaacae39" + // signature
		"27b4f69df39aff5f1f39aed154edfb85e20c67ac572de356a7ed71de9eab9e01" +
		"0000000000000001" + // counter
		"40" + "6e6f646531203139322e302e322e313a3431303020" + // node1 192.0.2.1:4100
		"704f43536b725a52776e6935647978576e312d707578505a42725271746f79642d64777252416e346f676b" +
		"d3f4d8b2be994b2d464b" + "737d9fc496405111e8bf683e41e799a7" // message, code
	got := hex.EncodeToString(seal(t, a, b, overlay.Pong{Seq: 3, OK: true}))
	if got != want {
		t.Errorf("datagram\n%s, want\n%s", got, want)
	}
}

func TestDatagramsAreTakenOnceFromMembers(t *testing.T) {
	a, b, c := member(t, 1), member(t, 2), member(t, 3)
	fleet, other := issuer(t, 4), issuer(t, 5)
	admit(t, fleet, a, b, c)
	ping := overlay.Ping{Seq: 1}
	first := seal(t, a, b, ping)
	if from, m, err := b.open(first); from != a.Name() || m != any(ping) || err != nil {
		t.Fatalf("%q, %v, %v", from, m, err)
	}
	refused := func(what string, by *Socket, datagram []byte, want error) {
		t.Helper()
		if from, m, err := by.open(datagram); !errors.Is(err, want) {
			t.Errorf("%s: from %q %v, %v, want %v", what, from, m, err, want)
		}
	}
	refused("the same again", b, first, errReplayed)
	refused("for another node", c, first, errSealed)
	second := seal(t, a, b, ping)
	for i := range second {
		changed := bytes.Clone(second)
		changed[i] ^= 1
		if _, _, err := b.open(changed); err == nil {
			t.Fatalf("byte %d changed, and the datagram was taken", i)
		}
	}
	if _, _, err := b.open(second); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	refused("cut short", b, second[:nameAt+3], errShort)
	refused("nothing", b, nil, errForeign)
	newer := bytes.Clone(second)
	newer[4]++
	refused("another version", b, newer, errVersion)

	// The liar has a key of its own, but claims the name of another node.
	liar := member(t, 6)
	admit(t, other, liar)
	refused("of another fleet", b, seal(t, liar, b, ping), errSignature)
	liar.signature = a.signature
	refused("with the signature of another", b, seal(t, liar, b, ping), errSignature)
	liar.identity.Name = a.Name()
	refused("with the name of another", b, seal(t, liar, b, ping), errSealed)

	// After a revocation, only names that the new issuer signed are accepted.
	late := seal(t, a, b, ping)
	admit(t, other, b)
	refused("by the earlier issuer", b, late, errSignature)
	if n := b.Counts(); n.Received != 2 || n.Refused < 9 || n.Why == "" {
		t.Errorf("%+v", n)
	}
	if err := c.Use([][]byte{fleet.Public()}, other.Sign(c.Name())); !errors.Is(err, errSignature) {
		t.Errorf("uses the signature of another issuer: %v", err)
	}
	if _, _, err := member(t, 7).seal(b.Name(), ping); !errors.Is(err, errSignature) {
		t.Errorf("sends without a signature: %v", err)
	}
}

func TestWindow(t *testing.T) {
	var w window
	for _, step := range []struct {
		counter uint64
		want    bool
	}{{0, false}, {1, true}, {1, false}, {3, true}, {2, true}, {2, false}, {70, true}, {6, false},
		{7, true}, {7, false}, {69, true}, {1000, true}, {1000, false}, {999, true}, {70, false}} {
		if got := w.accepts(step.counter); got != step.want {
			t.Errorf("counter %d: %v", step.counter, got)
		}
	}
}

// After a socket has forgotten a peer and sends to it again, the key is the same as before. So the
// datagrams must have counters that were never used with this key.
func TestForgottenPeerGetsNewCounters(t *testing.T) {
	a, b := member(t, 1), member(t, 2)
	admit(t, issuer(t, 3), a, b)
	for range 5 {
		seal(t, a, b, overlay.Drop{})
	}
	clock := time.Unix(1e9, 0)
	a.now = func() time.Time { clock = clock.Add(1); return clock }
	a.peers[b.Name()].used = clock
	for i := range maxPeers {
		p := *b.identity
		p.Name = overlay.Name(strings.Replace(string(p.Name), "node2", fmt.Sprintf("x%d", i), 1))
		if _, err := a.peer(p.Name); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.peers) != maxPeers || a.peers[b.Name()] != nil {
		t.Fatalf("%d peers are remembered, and b: %v", len(a.peers), a.peers[b.Name()] != nil)
	}
	seal(t, a, b, overlay.Drop{})
	if sent := a.peers[b.Name()].sent; sent != 6 {
		t.Errorf("counter %d was used before", sent)
	}
}

// A flood of unknown names costs a bounded number of checks.
func TestFloodOfNamesIsBounded(t *testing.T) {
	a, b, liar := member(t, 1), member(t, 2), member(t, 6)
	admit(t, issuer(t, 3), a, b)
	admit(t, issuer(t, 4), liar)
	clock := b.filled
	b.now = func() time.Time { return clock }
	known := seal(t, a, b, overlay.Drop{})
	if _, _, err := b.open(known); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for range 2 * verifiesBurst {
		if _, _, err := b.open(seal(t, liar, b, overlay.Drop{})); errors.Is(err, errSignature) {
			checked++
		} else if !errors.Is(err, errBusy) {
			t.Fatal(err)
		}
	}
	if checked != verifiesBurst-1 {
		t.Errorf("%d signatures were checked", checked)
	}
	if _, _, err := b.open(seal(t, a, b, overlay.Drop{})); err != nil {
		t.Errorf("a known member during the flood: %v", err)
	}
	clock = clock.Add(time.Second)
	if _, _, err := b.open(seal(t, liar, b, overlay.Drop{})); !errors.Is(err, errSignature) {
		t.Errorf("a second later: %v", err)
	}
}

func TestParseName(t *testing.T) {
	good := string(member(t, 1).Name())
	for _, bad := range []string{"", "a b", good + " x", " " + good, strings.Repeat("n", 256),
		strings.Replace(good, ":4100", ":0", 1), strings.Replace(good, "192.0.2.1", "0.0.0.0", 1),
		strings.Replace(good, "192.0.2.1", "224.0.0.1", 1), good + "A", good[:len(good)-1],
		strings.Replace(good, ":4100", ":04100", 1)} {
		if card, err := ParseName(overlay.Name(bad)); err == nil {
			t.Errorf("%q is %+v", bad, card)
		}
	}
	if card, err := ParseName(overlay.Name(good)); err != nil || card.Node != "node1" {
		t.Errorf("%+v, %v", card, err)
	}
}

// FuzzDatagram sends any bytes to a member, once alone and once after the beginning of a valid
// datagram.
func FuzzDatagram(f *testing.F) {
	a, b := member(f, 1), member(f, 2)
	admit(f, issuer(f, 3), a, b)
	good := seal(f, a, b, overlay.Ping{Seq: 1})
	f.Add(good)
	f.Fuzz(func(t *testing.T, rest []byte) {
		if len(rest) == 0 {
			return
		}
		keep := int(rest[0]) % nameAt
		for _, datagram := range [][]byte{rest, append(bytes.Clone(good[:keep]), rest[1:]...)} {
			b.tokens = verifiesBurst
			if _, _, err := b.open(datagram); err == nil && !bytes.Equal(datagram, good) {
				t.Fatalf("%x was taken", datagram)
			}
		}
	})
}

func TestSocketsReachEachOther(t *testing.T) {
	loopback := netip.MustParseAddr("127.0.0.1")
	var all []*Socket
	by := issuer(t, 3)
	for _, name := range []string{"a", "b"} {
		s, err := Listen(name, netip.AddrPortFrom(loopback, 0), loopback)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		all = append(all, s)
	}
	admit(t, by, all...)
	for i, s := range all {
		to := all[1-i]
		s.SendAny(to.Name(), Answer{[]byte(s.Name())})
		from, m, err := to.Receive()
		if a, ok := m.(Answer); err != nil || from != s.Name() || !ok ||
			string(a.Body) != string(s.Name()) {
			t.Fatalf("from %q %v, %v", from, m, err)
		}
	}
	done := make(chan error)
	go func() {
		_, _, err := all[0].Receive()
		done <- err
	}()
	all[0].Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed socket: %v", err)
	}
	if n := all[1].Counts(); n.Sent != 1 || n.Received != 1 || n.SentBytes != n.ReceivedBytes {
		t.Errorf("%+v", n)
	}
}
