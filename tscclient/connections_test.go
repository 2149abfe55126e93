package tscclient

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// Lines of /proc/net/tcp and tcp6 on a machine with connections to 10.0.0.7, 2001:db8::7 and to
// itself.
const kernelList = `  sl  local_address rem_address   st tx_queue rx_queue tr
   0: 0500000A:1CA2 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 0500000A:1CA2 0700000A:C001 01 00000000:00000000 00:00000000 00000000     0        0 2 1
   2: 0100007F:1CA2 0100007F:C002 01 00000000:00000000 00:00000000 00000000     0        0 3 1
   3: 0500000A:1CA2 0500000A:C003 01 00000000:00000000 00:00000000 00000000     0        0 4 1
   4: 0500000A:1CA2 0800000A:C001 06 00000000:00000000 00:00000000 00000000     0        0 5 1
   5: B80D0120000000000000000005000000:1CA2 B80D0120000000000000000007000000:C004 01 0:0 0 0
   6: 0000000000000000FFFF00000500000A:1CA2 0000000000000000FFFF00000900000A:C005 01 0:0 0 0
   7: 0500000A:1CA2 xx00000A:C001 01
   8: 01
`

func TestConnectionsAreRead(t *testing.T) {
	want := []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("2001:db8::7"),
		netip.MustParseAddr("10.0.0.9")}
	got := connectedTo(strings.NewReader(kernelList))
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A machine is still reported for a while after the connection to it has ended. At most
// control.MaxNeighbours machines are reported.
func TestConnectionsAreForgotten(t *testing.T) {
	now := time.Now()
	c := tcpConnections{looked: now, seen: map[netip.Addr]time.Time{
		netip.MustParseAddr("10.0.0.7"): now.Add(-connectionLife + 3*time.Second),
		netip.MustParseAddr("10.0.0.6"): now}}
	if got := c.listAddresses(now); !slices.Equal(got, []string{"10.0.0.6", "10.0.0.7"}) {
		t.Errorf("%v", got)
	}
	if got := c.listAddresses(now.Add(4 * time.Second)); !slices.Equal(got, []string{"10.0.0.6"}) {
		t.Errorf("%v, a minute after the end of the connection", got)
	}
	for i := range 2 * control.MaxNeighbours {
		c.seen[netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})] = now
	}
	if got := c.listAddresses(now); len(got) != control.MaxNeighbours {
		t.Errorf("%d addresses", len(got))
	}
}
