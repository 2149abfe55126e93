package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Pair is two namespaces and the link between them. Any number of goroutines may use it.
type Pair struct {
	ends [2]thread
}

const link = "link" // name of the link's end in both namespaces

var (
	addresses = [2]netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"),
		netip.MustParsePrefix("192.0.2.2/24")}
	ipv6 = [2]netip.Prefix{netip.MustParsePrefix("2001:db8::1/64"),
		netip.MustParsePrefix("2001:db8::2/64")}
)

// NewPair makes a pair. A namespace exists until Close, and after that until the last socket or
// process in it is gone.
func NewPair() (*Pair, error) {
	p := new(Pair)
	for i := range p.ends {
		p.ends[i] = newThread()
	}
	if err := p.setUp(); err != nil {
		p.Close()
		return nil, fmt.Errorf("make two network namespaces: %w", err)
	}
	return p, nil
}

func (p *Pair) setUp() error {
	for _, end := range p.ends {
		if err := end.leave(); err != nil {
			return err
		}
	}
	other, err := p.ends[1].namespace()
	if err != nil {
		return err
	}
	defer other.Close()
	if err := p.Do(0, func() error { return addVeth(link, link, int(other.Fd())) }); err != nil {
		return fmt.Errorf("add veth: %w", err)
	}
	for i := range p.ends {
		if err := p.Do(i, func() error { return bringUp(addresses[i], ipv6[i]) }); err != nil {
			return err
		}
	}
	return nil
}

// bringUp switches on the loopback interface and the link of the calling thread's namespace, and
// gives the link the addresses.
func bringUp(addresses ...netip.Prefix) error {
	for _, name := range []string{"lo", link} {
		i, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		if name == link {
			for _, a := range addresses {
				if err := addAddress(i.Index, a); err != nil {
					return fmt.Errorf("add address %v: %w", a, err)
				}
			}
		}
		if err := setUp(i.Index); err != nil {
			return fmt.Errorf("set %s up: %w", name, err)
		}
	}
	return nil
}

// Do runs f on a thread in namespace 0 or 1, after earlier calls for that namespace have ended. A
// socket that f opens, and a process that f starts, stay in the namespace. A goroutine that f
// starts does not run in the namespace.
func (p *Pair) Do(end int, f func() error) error { return p.ends[end].do(f) }

// Addr returns the IPv4 address of an end, 0 or 1.
func (p *Pair) Addr(end int) netip.Addr { return addresses[end].Addr() }

// Addr6 returns the IPv6 address of an end, 0 or 1.
func (p *Pair) Addr6(end int) netip.Addr { return ipv6[end].Addr() }

// SlowLoopback puts a queue before the loopback interface of the calling thread's namespace, so
// that packets wait in the sender. Call it in a function that Do runs.
func SlowLoopback() error {
	const bytesPerSecond, burst = 25e6, 70e3
	i, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	if err := addQueue(i.Index, bytesPerSecond, burst); err != nil {
		return fmt.Errorf("add a queue to lo: %w", err)
	}
	return nil
}

// Close releases the namespaces. Call it once, after all calls of Do have returned.
func (p *Pair) Close() {
	for _, end := range p.ends {
		close(end)
	}
}

var errShortReply = errors.New("netlink's reply is too short")
