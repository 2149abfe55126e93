package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Star is a set of namespaces, called ends, that reach each other over a bridge. The bridge is in a
// namespace of its own, the hub. In a Star from NewMesh the ends reach each other directly, and
// reach the hub over the bridge. Any number of goroutines may use a Star.
type Star struct {
	hub  thread
	ends []thread
}

// Hub is the number by which Do and Addr select the hub.
const Hub = -1

const bridge = "bridge"

// NewStar makes a star with the given number of ends, at most 100. Its namespaces exist until
// Close, and after that until the last socket or process in them is gone.
func NewStar(ends int) (*Star, error) {
	s := &Star{hub: newThread(), ends: make([]thread, ends)}
	for i := range s.ends {
		s.ends[i] = newThread()
	}
	if err := s.setUp(); err != nil {
		s.Close()
		return nil, fmt.Errorf("make %d network namespaces: %w", ends, err)
	}
	return s, nil
}

// NewMesh makes a star in which every two ends also have a link of their own. Packets between the
// two ends take that link, which is one veth without a bridge. Cut does not change these links.
func NewMesh(ends int) (*Star, error) {
	s, err := NewStar(ends)
	if err != nil {
		return nil, err
	}
	for i := range ends {
		for j := range i {
			if err := s.connect(i, j); err != nil {
				s.Close()
				return nil, fmt.Errorf("connect two of %d network namespaces: %w", ends, err)
			}
		}
	}
	return s, nil
}

// connect gives two ends a link of their own.
func (s *Star) connect(a, b int) error {
	namespace, err := s.ends[b].namespace()
	if err != nil {
		return err
	}
	defer namespace.Close()
	name := func(far int) string { return fmt.Sprintf("to%d", far) }
	if err := s.Do(a,
		func() error { return addVeth(name(b), name(a), int(namespace.Fd())) }); err != nil {
		return fmt.Errorf("add veth: %w", err)
	}
	for _, way := range [][2]int{{a, b}, {b, a}} {
		near, far := way[0], way[1]
		if err := s.Do(near, func() error {
			i, err := net.InterfaceByName(name(far))
			if err != nil {
				return err
			}
			// The kernel prefers this route to the route over the bridge, because this one leads to
			// a single host.
			if err := addAddressTo(i.Index, netip.PrefixFrom(s.Addr(near), 32),
				s.Addr(far)); err != nil {
				return fmt.Errorf("add address: %w", err)
			}
			return setUp(i.Index)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Star) setUp() error {
	if err := s.hub.leave(); err != nil {
		return err
	}
	err := s.Do(Hub, func() error {
		if err := addBridge(bridge); err != nil {
			return fmt.Errorf("add bridge: %w", err)
		}
		b, err := net.InterfaceByName(bridge)
		if err != nil {
			return err
		}
		if err := addAddress(b.Index, netip.PrefixFrom(s.Addr(Hub), 24)); err != nil {
			return err
		}
		lo, err := net.InterfaceByName("lo") // the hub's packets to its own address take lo
		if err != nil {
			return err
		}
		return errors.Join(setUp(lo.Index), setUp(b.Index))
	})
	if err != nil {
		return err
	}
	for i := range s.ends {
		if err := s.ends[i].leave(); err != nil {
			return err
		}
		end, err := s.ends[i].namespace()
		if err != nil {
			return err
		}
		err = s.Do(Hub, func() error {
			defer end.Close()
			if err := addVeth(portName(i), link, int(end.Fd())); err != nil {
				return fmt.Errorf("add veth: %w", err)
			}
			b, err := net.InterfaceByName(bridge)
			if err != nil {
				return err
			}
			p, err := net.InterfaceByName(portName(i))
			if err != nil {
				return err
			}
			if err := addPort(p.Index, b.Index); err != nil {
				return fmt.Errorf("add port: %w", err)
			}
			return setUp(p.Index)
		})
		if err != nil {
			return err
		}
		if err := s.Do(i,
			func() error { return bringUp(netip.PrefixFrom(s.Addr(i), 24)) }); err != nil {
			return err
		}
	}
	return s.introduce()
}

// introduce tells each end the hardware addresses of the others and of the hub. Otherwise the
// kernel finds them by ARP, and keeps at most 1,024 of them for all namespaces together. With 100
// ends that each talk to 15 others, this is too few, and some ends cannot reach others.
func (s *Star) introduce() error {
	hardware := make([]net.HardwareAddr, len(s.ends))
	links := make([]int, len(s.ends))
	find := func(end int, name string) (found *net.Interface, err error) {
		err = s.Do(end, func() (err error) {
			found, err = net.InterfaceByName(name)
			return err
		})
		return found, err
	}
	hub, err := find(Hub, bridge)
	if err != nil {
		return err
	}
	for i := range s.ends {
		found, err := find(i, link)
		if err != nil {
			return err
		}
		hardware[i], links[i] = found.HardwareAddr, found.Index
	}
	for i := range s.ends {
		err := s.Do(i, func() error {
			for k, h := range hardware {
				if err := addNeighbour(links[i], s.Addr(k), h); err != nil {
					return fmt.Errorf("add neighbour: %w", err)
				}
			}
			return addNeighbour(links[i], s.Addr(Hub), hub.HardwareAddr)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// portName returns the name that the link of an end has in the hub.
func portName(end int) string { return fmt.Sprintf("port%d", end) }

// Do runs f on a thread in the namespace of an end, or of the hub, as Pair.Do does.
func (s *Star) Do(end int, f func() error) error {
	if end == Hub {
		return s.hub.do(f)
	}
	return s.ends[end].do(f)
}

// Addr returns the IPv4 address of an end or of the hub.
func (s *Star) Addr(end int) netip.Addr {
	if end == Hub {
		return netip.AddrFrom4([4]byte{192, 0, 2, 1})
	}
	return netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + end)})
}

// Cut sets the link of an end down if cut is true, and up otherwise. While the link is down, its
// packets are lost without an error.
func (s *Star) Cut(end int, cut bool) error {
	return s.Do(Hub, func() error {
		p, err := net.InterfaceByName(portName(end))
		if err != nil {
			return err
		}
		if cut {
			return setDown(p.Index)
		}
		return setUp(p.Index)
	})
}

// Close releases the namespaces, as Pair.Close does.
func (s *Star) Close() {
	close(s.hub)
	for _, end := range s.ends {
		close(end)
	}
}
