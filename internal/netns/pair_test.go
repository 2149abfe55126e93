package netns

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
)

func TestPrivilegedPairCarriesPackets(t *testing.T) {
	privileged.Need(t)
	p, err := NewPair()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, addr := range [](func(int) netip.Addr){p.Addr, p.Addr6} {
		var near, far *net.UDPConn
		at :=
			func(end int) *net.UDPAddr {
				return net.UDPAddrFromAddrPort(
					netip.AddrPortFrom(addr(end), 0))
			}
		if err := p.Do(1,
			func() (err error) { far, err = net.ListenUDP("udp", at(1)); return err }); err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		if err := p.Do(0, func() (err error) {
			near, err = net.DialUDP("udp", at(0), far.LocalAddr().(*net.UDPAddr))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer near.Close()
		if _, err := near.Write([]byte("over")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 10)
		n, from, err := far.ReadFromUDPAddrPort(b)
		if err != nil || string(b[:n]) != "over" || from.Addr() != addr(0) {
			t.Errorf("received %q from %v, %v", b[:n], from, err)
		}
	}
}

func TestPrivilegedPairIsApart(t *testing.T) {
	privileged.Need(t)
	p, err := NewPair()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for end := range 2 {
		err := p.Do(end, func() error {
			links, err := net.Interfaces()
			if err == nil && len(links) != 2 {
				t.Errorf("end %d has %v, want lo and the link", end, links)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := net.InterfaceByName(link); err == nil {
		t.Error("the link is in the machine's own namespace")
	}
	failed := errors.New("as told")
	if err := p.Do(0, func() error { return failed }); err != failed {
		t.Errorf("error = %v, want what the function returned", err)
	}
}
