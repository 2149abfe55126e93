package tscclient

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// This file finds the machines with which the programs of this node talk. In a large fleet the node
// measures these machines in addition to its neighbours in the graph, because people ask for
// durations between machines that talk with each other.

const (
	// lookEvery is the time between two looks at the machine's connections. A look at 1,000
	// connections takes less than a millisecond.
	lookEvery = 5 * time.Second

	// connectionLife is how long a machine is reported after a connection to it was last seen.
	connectionLife = time.Minute

	// maxConnectionBytes limits how much of the kernel's list is read: some 25,000 connections.
	maxConnectionBytes = 4 << 20
)

// tcpConnections remembers the addresses to which this node has TCP connections. Only one goroutine
// may use it.
type tcpConnections struct {
	looked time.Time
	seen   map[netip.Addr]time.Time
}

// listAddresses returns the addresses, sorted, and at most control.MaxNeighbours of them. It reads
// the kernel's list again only if lookEvery has passed since the last reading of the list.
func (c *tcpConnections) listAddresses(now time.Time) []string {
	if c.seen == nil {
		c.seen = map[netip.Addr]time.Time{}
	}
	if now.Sub(c.looked) >= lookEvery {
		c.looked = now
		for _, path := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
			f, err := os.Open(path)
			if err != nil {
				continue // without IPv6 there is no tcp6
			}
			for _, a := range connectedTo(io.LimitReader(f, maxConnectionBytes)) {
				c.seen[a] = now
			}
			f.Close()
		}
	}
	var all []netip.Addr
	for a, when := range c.seen {
		if now.Sub(when) > connectionLife {
			delete(c.seen, a)
			continue
		}
		all = append(all, a)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	var texts []string
	for _, a := range all[:min(len(all), control.MaxNeighbours)] {
		texts = append(texts, a.String())
	}
	return texts
}

// connectedTo returns the other ends of the established connections in a list of the kernel, such
// as /proc/net/tcp (see proc(5)). It leaves out connections within the machine.
func connectedTo(list io.Reader) (all []netip.Addr) {
	const established = "01"
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[3] != established {
			continue
		}
		own, errOwn := kernelAddress(fields[1])
		other, err := kernelAddress(fields[2])
		if err == nil && errOwn == nil && other != own && !other.IsLoopback() {
			all = append(all, other)
		}
	}
	return all
}

// kernelAddress parses an address and port as the kernel writes them, such as "0A00000A:1F90", and
// returns the address without the port. The kernel writes words of 32 bits in the byte order of the
// machine. All supported machines are little-endian.
func kernelAddress(text string) (netip.Addr, error) {
	digits, _, _ := strings.Cut(text, ":")
	words, err := hex.DecodeString(digits)
	if err != nil || len(words) != 4 && len(words) != 16 {
		return netip.Addr{}, errors.New("not an address")
	}
	var b bytes.Buffer
	for w := range slices.Chunk(words, 4) {
		_ = binary.Write(&b, binary.BigEndian, binary.LittleEndian.Uint32(w)) // never fails
	}
	a, _ := netip.AddrFromSlice(b.Bytes())
	return a.Unmap(), nil
}
