package messages

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// A service has the names that its clients' node knows for its address. A program that asked for a
// name itself keeps only this one. Addresses at which nothing was captured have names, too.
func TestNamesOfServices(t *testing.T) {
	web, db := "10.0.0.1:5000", "10.0.0.2:5432"
	a, b := newLog("a"), newLog("b")
	conversationAt(a, b, 1, [2]string{web, db}, 100)
	conversationAt(a, newLog("not captured"), 2, [2]string{"10.0.0.1:5001", "10.0.0.9:443"}, 200)
	for _, l := range []*Log{a, b} {
		l.add(blackbox.Thread{Process: 7, Program: l.Node})
	}
	name := func(l *Log, process uint32, address, name string) {
		n := blackbox.HostName{
			Source: blackbox.Hosts, Address: netip.MustParseAddr(address), Name: name,
		}
		if n.Process = process; process != 0 {
			n.Source = blackbox.Asked
		}
		l.add(n)
	}
	name(a, 7, "10.0.0.2", "db.example")
	name(a, 7, "::ffff:10.0.0.2", "db.example")
	name(a, 8, "10.0.0.2", "of.another.process")
	name(a, 0, "10.0.0.2", "of.the.file")
	name(b, 0, "10.0.0.1", "web2")
	name(b, 0, "10.0.0.1", "web")
	name(b, 0, "10.0.0.1", "localhost")
	name(a, 0, "10.0.0.1", "another.node")
	name(a, 0, "10.0.0.9", "api.example")
	a.add(blackbox.Connection{
		Number: 90, Family: blackbox.UNIX, Protocol: blackbox.UNIXStream, Cookie: 90, Peer: 91,
		PeerProcess: 812,
	})
	for range 3 {
		a.add(blackbox.Message{Connection: 90, Began_cycles: 1, Ended_cycles: 2, Bytes: 4})
	}
	logs := []*Log{a, b}
	names := hostsOf(logs)
	p := &pair{sockets: map[*socket]bool{}, hosts: names}
	m := match(logs, sameNode, func(m Match) { p.add(&Timed{Match: m, Unknown: errUnknown}) })
	if m.Matched != 1 {
		t.Fatalf("%+v", m)
	}
	if to, from := p.To_names, p.From_names; !slices.Equal(to, []string{"db.example"}) ||
		!slices.Equal(from, []string{"web", "web2"}) {
		t.Errorf("to %q, from %q", to, from)
	}
	want := []Outside{{
		From: Program{"a", "a"}, Process: 812, Messages: 3, Bytes: 12, Connections: 1,
	}, {
		From: Program{"a", "a"}, Address: "10.0.0.9", Port: 443, Names: []string{"api.example"},
		Messages: 1, Bytes: 5, Connections: 1,
	}}
	if diff := cmp.Diff(want, outsideTraffic(&m, names)); diff != "" {
		t.Error(diff)
	}
}
