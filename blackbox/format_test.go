package blackbox

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var exact = cmp.Options{
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

// The tables of FORMAT.md contain exactly the numbers of the constants.
func TestFormatDocumentAgrees(t *testing.T) {
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for first, want := range map[string]map[string]string{
		"kind": {
			fmt.Sprint(Sent): "sent", fmt.Sprint(Received): "received",
			fmt.Sprint(Described): "described", fmt.Sprint(Named): "named",
			fmt.Sprint(Lost): "lost", fmt.Sprint(Happened): "happened", fmt.Sprint(Told): "told",
		},
		"what": whats(),
		"source": {
			fmt.Sprint(uint8(Asked)): Asked.String(), fmt.Sprint(uint8(Hosts)): Hosts.String(),
		},
		"flag": {
			fmt.Sprint(flagStream): "stream", fmt.Sprint(flagSure): "sure",
			fmt.Sprint(flagEarly): "early",
		},
		"reason": {
			fmt.Sprint(uint8(BufferFull)): BufferFull.String(),
			fmt.Sprint(uint8(NoStamp)):    NoStamp.String(),
			fmt.Sprint(uint8(NotValid)):   NotValid.String(),
			fmt.Sprint(uint8(NotKnown)):   NotKnown.String(),
			fmt.Sprint(uint8(WakeUp)):     WakeUp.String(),
		},
	} {
		_, table, ok := bytes.Cut(text, []byte("\n| "+first+" | name |"))
		if !ok {
			t.Fatalf("no table of each %s", first)
		}
		table, _, _ = bytes.Cut(table, []byte("\n\n"))
		got := map[string]string{}
		for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| ([a-z -]+) \|`).
			FindAllSubmatch(table, -1) {
			got[string(row[1])] = string(row[2])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("table of each %s: %s", first, diff)
		}
	}
}

func whats() map[string]string {
	all := map[string]string{}
	for w, name := range whatNames {
		all[fmt.Sprint(uint8(w))] = name
	}
	return all
}

// bytesOf writes events as a ring has them on amd64.
func bytesOf(events ...Event) (b []byte) {
	for _, e := range events {
		b = binary.LittleEndian.AppendUint64(b, e.Counter_cycles)
		b = binary.LittleEndian.AppendUint64(b, e.ID)
	}
	return b
}

// In most examples, all numbers are different, so that a mix-up of fields is noticed.
var (
	exampleSent = Message{
		Kind: Sent, Began_cycles: 0x1112131415161718, Ended_cycles: 0x2122232425262728,
		Width_cycles: 256, Connection: 0x31323334, Thread: 0x35363, Position: 0x4142434445,
		Bytes: 0x5152 + 1, Stream: true, Sure: true, Early: true,
	}
	exampleReceived = Message{
		Kind: Received, Began_cycles: 1, Ended_cycles: 2, Connection: 3, Thread: MaxThread,
		Position: MaxPosition, Bytes: MaxBytes, Stream: true,
	}
	exampleArrived = Message{
		Kind: Received, Arrived_cycles: 0x1112131415161718, Began_cycles: 0x2122232425262728 - 128,
		Ended_cycles: 0x2122232425262728, Width_cycles: 128, Connection: 3, Thread: 4, Position: 5,
		Bytes: 6, Stream: true, Arrived: true,
	}
	exampleWoke = Happening{
		What: Woke, Began_cycles: 0x11, Ended_cycles: 0x12, Thread: 0x13, Other: 0x14,
	}
	exampleForked = Happening{
		What: Forked, Began_cycles: 0x11, Ended_cycles: 0x12, Thread: 0x13, Other: 0x14,
		Process: MaxThread,
	}
	exampleConnecting = Happening{
		What: Connecting, Began_cycles: 0x11, Ended_cycles: 0x12, Thread: 0x13, Connection: 0x15,
	}
	exampleAgain = Happening{
		What: Retransmitted, Began_cycles: 0x11, Ended_cycles: 0x12, Connection: 0x15,
		Position: 0x4142434445, Bytes: 0x5152 + 1,
	}
	exampleBusy = Happening{
		What: Busy, Began_cycles: 0x11, Ended_cycles: 0x12, Thread: 0x13, Connection: 0x15,
		Position: 0x4142434445, Slack_cycles: 0x5152,
	}
	examplePlace = Place{
		Process: 77, Runtime: "docker", Container: "c0ffee", Pod: "p", PodName: "default/web",
		Unit: "u.scope",
	}
	exampleName = HostName{
		Process: 77, Source: Asked, Address: netip.MustParseAddr("1.2.3.4"), Name: "db.example",
	}
	exampleDatagram = Message{
		Kind: Received, Began_cycles: 1, Ended_cycles: 2, Connection: 3, Thread: 4,
		Bytes: 0x102 + 1, Checksum: 0x61626364, Waiting: 0x287,
	}
	exampleLoss = Loss{Reason: NotValid, First_cycles: 5, Last_cycles: 6, Messages: 7}

	exampleConnection = Connection{
		Number: 9, Family: IPv4, Protocol: TCP,
		Local:  netip.MustParseAddrPort("1.2.3.4:1286"),
		Remote: netip.MustParseAddrPort("5.6.7.8:1800"), Namespace: 0x0a0b0c0d,
		Cookie: 0x1112131415161718, Peer: 0x2122232425262728,
		Sends: 0x31323334, Receives: 0x41424344,
	}
	exampleThread = Thread{Number: 77, Process: 0x01020304, Program: "java", Name: "worker-1"}
)

func TestExactBytes(t *testing.T) {
	for what, c := range map[string]struct {
		events func() ([]Event, error)
		want   string
	}{
		"sent": {two(exampleSent.Events()), `
			1817161514131211 343332316353c385 2827262524232221 4544434241908a02`},
		"received": {two(exampleReceived.Events()), `
			0100000000000000 03000000ffff7f90 0200000000000000 ffffffffffffff7f`},
		"a datagram": {two(exampleDatagram.Events()), `
			0100000000000000 0300000004000090 0200000000000000 6463626187120800`},
		"lost": {two(exampleLoss.Events()), `
			0500000000000000 000000000000c0c0 0600000000000000 0700000000000000`},
		"an arrival": {two(exampleArrived.Events()), `
			1817161514131211 0300000004004093 2827262524232221 0500000000280000`},
		"a wake-up": {two(exampleWoke.Events()), `
			1100000000000000 00000000130040d0 1200000000000000 1400000000000000`},
		"a fork": {two(exampleForked.Events()), `
			1100000000000000 00000000130080d0 1200000000000000 1400c0ffff0f0000`},
		"a connection begins": {two(exampleConnecting.Events()), `
			1100000000000000 15000000130040d1 1200000000000000 0000000000000000`},
		"bytes again": {two(exampleAgain.Events()), `
			1100000000000000 15000000000040d2 1200000000000000 4544434241908a02`},
		"a busy receiver": {two(exampleBusy.Events()), `
			1100000000000000 15000000130080d2 1200000000000000 4544434241908a02`},
		"a place": {many(examplePlace.Events(1)), `
			0100000000000000 010000004d0000e0 0100000000000000 2506646f636b6500
			0100000000000000 010000004d0040e0 0100000000000000 7206633066666500
			0100000000000000 010000004d0080e0 0100000000000000 6501700b64656600
			0100000000000000 010000004d00c0e0 0100000000000000 61756c742f776500
			0100000000000000 010000004d0000e1 0100000000000000 6207752e73636f00
			0100000000000000 010000004d0040e1 0100000000000000 7065000000000000`},
		"a name": {many(exampleName.Events(1)), `
			0100000000000000 020000004d0000e0 0100000000000000 1101040102030400
			0100000000000000 020000004d0040e0 0100000000000000 64622e6578616d00
			0100000000000000 020000004d0080e0 0100000000000000 706c650000000000`},
		"a connection": {many(exampleConnection.Events(1)), `
			0100000000000000 09000000000000a0 0100000000000000 2b04060605080700
			0100000000000000 09000000000040a0 0100000000000000 0d0c0b0a18171600
			0100000000000000 09000000000080a0 0100000000000000 1514131211282700
			0100000000000000 090000000000c0a0 0100000000000000 2625242322213400
			0100000000000000 09000000000000a1 0100000000000000 3332314443424100
			0100000000000000 09000000000040a1 0100000000000000 0102030405060700
			0100000000000000 09000000000080a1 0100000000000000 0800000000000000`},
		"a thread": {many(exampleThread.Events(1)), `
			0100000000000000 000000004d0000b0 0100000000000000 1304030201046a00
			0100000000000000 000000004d0040b0 0100000000000000 61766108776f7200
			0100000000000000 000000004d0080b0 0100000000000000 6b65722d31000000`},
	} {
		events, err := c.events()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		want, err := hex.DecodeString(string(regexp.MustCompile(`\s`).ReplaceAll(
			[]byte(c.want), nil)))
		if err != nil {
			t.Fatal(err)
		}
		if got := bytesOf(events...); !bytes.Equal(got, want) {
			t.Errorf("%s:\n%x, want\n%x", what, got, want)
		}
	}
}

func two(e [2]Event, err error) func() ([]Event, error) {
	return func() ([]Event, error) { return e[:], err }
}

func many(e []Event, err error) func() ([]Event, error) {
	return func() ([]Event, error) { return e, err }
}

// examples returns records of every kind, and the values that a Decoder makes of them.
func examples(t testing.TB) (events []Event, values []any) {
	add := func(value any, more []Event, err error) {
		if err != nil {
			t.Fatalf("%+v: %v", value, err)
		}
		events, values = append(events, more...), append(values, value)
	}
	for _, m := range []Message{exampleSent, exampleReceived, exampleArrived, exampleDatagram} {
		e, err := m.Events()
		add(m, e[:], err)
	}
	for _, c := range []Connection{
		exampleConnection,
		{Number: 1, Family: UNIX, Protocol: UNIXPackets, Cookie: 2, Peer: 3,
			PeerProcess: 4},
		{Number: 1 << 31, Family: IPv6, Protocol: UDP,
			Local:  netip.MustParseAddrPort("[1::2]:3"),
			Remote: netip.MustParseAddrPort("[4::5]:6")},
	} {
		e, err := c.Events(8)
		add(c, e, err)
	}
	for _, th := range []Thread{exampleThread, {}, {Number: MaxThread, Name: "fifteen letters"}} {
		e, err := th.Events(8)
		add(th, e, err)
	}
	for _, h := range []Happening{exampleWoke, exampleForked, exampleConnecting, exampleAgain,
		exampleBusy,
		{What: Executed, Began_cycles: 1, Ended_cycles: 2, Thread: 3},
		{What: Exited, Began_cycles: 1, Ended_cycles: 2, Thread: 3},
		{What: Connected, Began_cycles: 1, Ended_cycles: 2, Connection: 3},
		{What: Accepted, Began_cycles: 1, Ended_cycles: 2, Connection: 3},
		{What: Closed, Began_cycles: 1, Ended_cycles: 2, Connection: 3},
	} {
		e, err := h.Events()
		add(h, e[:], err)
	}
	for _, p := range []Place{examplePlace, {Process: 1}} {
		e, err := p.Events(8)
		add(p, e, err)
	}
	for _, n := range []HostName{exampleName, {Source: Hosts, Name: strings.Repeat("n", MaxName),
		Address: netip.MustParseAddr("1::2")}} {
		e, err := n.Events(8)
		add(n, e, err)
	}
	e, err := exampleLoss.Events()
	add(exampleLoss, e[:], err)
	return events, values
}

func decode(events []Event) (values []any, bad uint64) {
	var d Decoder
	for _, e := range events {
		if v := d.Add(e); v != nil {
			values = append(values, v)
		}
	}
	d.End()
	return values, d.Bad
}

func TestRoundTrip(t *testing.T) {
	events, want := examples(t)
	got, bad := decode(events)
	if diff := cmp.Diff(want, got, exact); diff != "" || bad != 0 {
		t.Errorf("%d bad events, %s", bad, diff)
	}
}

// If one event is missing, exactly the value to which it belongs is missing. The other events of
// this value are counted as bad.
func TestMissingEvent(t *testing.T) {
	events, want := examples(t)
	for i := range events {
		var d Decoder
		var got []any
		n := 0
		for j, e := range events {
			if j != i {
				if v := d.Add(e); v != nil {
					got = append(got, v)
				}
				n++
			}
		}
		d.End()
		missing := 0
		for _, v := range want {
			if missing < len(got)+1 && (len(got) <= missing || !cmp.Equal(got[missing], v, exact)) {
				got = append(got[:missing:missing], append([]any{v}, got[missing:]...)...)
				n += 1000 // a value was put back
			}
			missing++
		}
		if diff := cmp.Diff(want, got, exact); diff != "" || n/1000 != 1 {
			t.Errorf("without event %d, %d values are missing: %s", i, n/1000, diff)
		}
		if d.Bad == 0 {
			t.Errorf("without event %d, nothing is counted", i)
		}
	}
}

func TestRefused(t *testing.T) {
	change := func(f func(*Message)) error {
		m := exampleSent
		f(&m)
		_, err := m.Events()
		return err
	}
	arrived := func(f func(*Message)) error {
		m := exampleArrived
		f(&m)
		_, err := m.Events()
		return err
	}
	happens := func(f func(*Happening)) error {
		h := exampleWoke
		f(&h)
		_, err := h.Events()
		return err
	}
	text := strings.Repeat("x", MaxText)
	_, longText := Place{Unit: text + "x"}.Events(1)
	_, longTexts := Place{Container: text, Pod: text, PodName: text, Unit: text}.Events(1)
	name := func(change func(*HostName)) error {
		n := exampleName
		change(&n)
		_, err := n.Events(1)
		return err
	}
	long := exampleThread
	long.Program = "sixteen letters!"
	_, longErr := long.Events(1)
	mixed := exampleConnection
	mixed.Family = IPv6
	_, mixedErr := mixed.Events(1)
	_, unstamped := exampleThread.Events(0)
	for what, err := range map[string]error{
		"no host name":     name(func(n *HostName) { n.Name = "" }),
		"a long host name": name(func(n *HostName) { n.Name = strings.Repeat("x", MaxName+1) }),
		"no source":        name(func(n *HostName) { n.Source = 0 }),
		"no address":       name(func(n *HostName) { n.Address = netip.Addr{} }),
		"asked by nobody":  name(func(n *HostName) { n.Source = Hosts }),
		"a thread":         change(func(m *Message) { m.Thread = MaxThread + 1 }),
		"a position":       change(func(m *Message) { m.Position = MaxPosition + 1 }),
		"no bytes":         change(func(m *Message) { m.Bytes = 0 }),
		"bytes":            change(func(m *Message) { m.Bytes = MaxBytes + 1 }),
		"no stamp":         change(func(m *Message) { m.Began_cycles = 0 }),
		"a stamp":          change(func(m *Message) { m.Ended_cycles = 1 << 63 }),
		"a width":          change(func(m *Message) { m.Width_cycles = 65 }),
		"no width":         change(func(m *Message) { m.Width_cycles = 0 }),
		"a large width":    change(func(m *Message) { m.Width_cycles = 2 * MaxWidth_cycles }),
		"early, received":  change(func(m *Message) { m.Kind = Received }),
		"a kind":           change(func(m *Message) { m.Kind = Lost }),
		"sent and arrived": change(func(m *Message) { m.Arrived = true }),
		"a moment":         arrived(func(m *Message) { m.Began_cycles++ }),
		"no arrival":       arrived(func(m *Message) { m.Arrived_cycles = 0 }),
		"early, arrived":   arrived(func(m *Message) { m.Early = true }),
		"nothing happened": happens(func(h *Happening) { h.What = 0 }),
		"too much":         happens(func(h *Happening) { h.Connection = 1 }),
		"another thread":   happens(func(h *Happening) { h.Other = MaxThread + 1 }),
		"a long text":      longText,
		"long texts":       longTexts,
		"a long name":      longErr,
		"another family":   mixedErr,
		"without a moment": unstamped,
		"a checksum":       change(func(m *Message) { m.Checksum = 1 }),
		"waiting pieces":   change(func(m *Message) { m.Waiting = 1 }),
		"many pieces": change(func(m *Message) {
			m.Stream, m.Position, m.Waiting = false, 0, MaxWaiting+1
		}),
		"a position without a stream": change(func(m *Message) { m.Stream = false }),
	} {
		if !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %v, want %v", what, err, ErrRecord)
		}
	}
}

// Whatever events a Decoder gets, a value that it returns is the same after it is written as events
// and decoded again. All events that belong to no value are counted as bad.
func FuzzDecode(f *testing.F) {
	events, _ := examples(f)
	f.Add(bytesOf(events...))
	f.Add(bytesOf(events[1:]...))
	arrivedAtZero, _ := exampleArrived.Events()
	arrivedAtZero[0].Counter_cycles = 0
	f.Add(bytesOf(arrivedAtZero[:]...))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d Decoder
		var total, valid uint64
		for ; len(data) >= 16; data = data[16:] {
			v := d.Add(Event{
				binary.LittleEndian.Uint64(data) &^ firstHalf, binary.LittleEndian.Uint64(data[8:]),
			})
			total++
			switch v := v.(type) {
			case Message:
				valid += 2
				if e, err := v.Events(); err == nil {
					again(t, v, e[:])
				} else if isStamp(v.Began_cycles) && isStamp(v.Ended_cycles) {
					t.Fatalf("%+v: %v", v, err)
				}
			case Loss:
				valid += 2
			case interface{ Events(uint64) ([]Event, error) }: // a description
				e, err := v.Events(1)
				again(t, v, e)
				valid += uint64(len(e))
				if err != nil {
					t.Fatal(err)
				}
			case Happening:
				valid += 2
				if e, err := v.Events(); err == nil {
					again(t, v, e[:])
				} else if isStamp(v.Began_cycles) && isStamp(v.Ended_cycles) {
					t.Fatalf("%+v: %v", v, err)
				}
			}
		}
		d.End()
		if valid+d.Bad != total {
			t.Fatalf("%d events: %d are valid, %d bad", total, valid, d.Bad)
		}
	})
}

func again(t *testing.T, want any, events []Event) {
	t.Helper()
	got, bad := decode(events)
	if diff := cmp.Diff([]any{want}, got, exact); diff != "" || bad != 0 {
		t.Fatalf("%d bad events, %s", bad, diff)
	}
}
