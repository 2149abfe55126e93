package messages

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/conversation"
	"github.com/cloudprofiler/cloudprofiler/internal/netns"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// The hub is a gateway. Clients send to its TCP port 80, and it passes this on to two servers in
// turn, as a load balancer of Kubernetes does. Clients also send to its UDP port 53, and it passes
// this on to a third server. Clients and servers see only the address of the hub, and ports that it
// chose.
const gatewayRules = `
table ip gateway {
	chain in {
		type nat hook prerouting priority -100;
		tcp dport 80 dnat to numgen inc mod 2 map { 0: %s . %d, 1: %s . %d }
		udp dport 53 dnat to %s
	}
	chain out {
		type nat hook postrouting priority 100;
		ip protocol tcp masquerade to :20000-29999 random
		ip protocol udp masquerade to :30000-39999 random
	}
}`

// Each message is matched with the call that received it, and with no other, though the kernel
// translates the addresses and ports of both ends.
func TestPrivilegedNAT(t *testing.T) {
	privileged.Need(t)
	s, err := netns.NewStar(3)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	do := func(end int, f func() error) {
		t.Helper()
		if err := s.Do(end, f); err != nil {
			t.Fatal(err)
		}
	}
	start := func(end int, args ...any) (program *conversation.Program) {
		do(end, func() error {
			program = conversation.Start(t, args...)
			return nil
		})
		return program
	}
	r := startRig(t)
	again, from := seed.Of(t)%1e9, asm.Counter()
	var servers [2]*conversation.Program
	var at [2]netip.AddrPort
	for i := range servers {
		servers[i] = start(1+i, "server", netip.AddrPortFrom(s.Addr(1+i), 0), again, 3, 200)
		at[i] = netip.MustParseAddrPort(servers[i].Says())
	}
	echo := start(1, "echo", netip.AddrPortFrom(s.Addr(1), 0), again, 1, 600)
	do(netns.Hub, func() error {
		return makeGateway(fmt.Sprintf(gatewayRules, at[0].Addr(), at[0].Port(), at[1].Addr(),
			at[1].Port(), echo.Says()))
	})
	client := start(0, "client", netip.AddrPortFrom(s.Addr(netns.Hub), 80), again, 6, 200)
	teller := start(0, "teller", netip.AddrPortFrom(s.Addr(netns.Hub), 53), again, 1, 600)

	truth := client.Truth(t)
	translated := map[int]int{} // the client's port, by the port that the servers see
	do(netns.Hub, func() (err error) {
		translated, err = translatedPorts()
		return err
	})
	for _, server := range servers {
		calls := server.Truth(t)
		if len(calls) == 0 {
			t.Error("a server was left out")
		}
		for _, c := range calls {
			seen := c.Ports[1]
			if c.Ports = [2]int{80, translated[seen]}; c.Ports[1] == 0 || c.Ports[1] == seen {
				t.Fatalf("the gateway did not translate port %d: %v", seen, translated)
			}
			truth = append(truth, c)
		}
	}
	told, echoed := teller.Truth(t), echo.Truth(t)
	for i := range told {
		told[i].Peer, echoed[i].Peer = echoed[0].Cookie, told[0].Cookie
	}
	r.endCapture(t)
	checkMatches(t, r.logs, truth, from)
	checkPipes(t, r.logs, append(told, echoed...), from)
}

// With twinRules, two servers share what clients send to UDP port 53.
const twinRules = `
table ip gateway {
	chain in {
		type nat hook prerouting priority -100;
		udp dport 53 dnat to numgen inc mod 2 map { 0: %s . %d, 1: %s . %d }
	}
	chain out {
		type nat hook postrouting priority 100;
		ip protocol udp masquerade to :30000-39999 random
	}
}`

// Two clients send identical requests through a gateway, which spreads them over two servers, and
// get identical answers at about the same time. No call of a client is matched with a call of the
// server that served the other client. If calls of both servers fit, none is chosen, and the
// message is counted with this reason.
func TestPrivilegedNATOfTwins(t *testing.T) {
	privileged.Need(t)
	s, err := netns.NewStar(4)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const messages = 1200
	again, from := seed.Of(t)%1e9, asm.Counter()
	r := startRig(t)
	start := func(end int, role string, at netip.AddrPort) (program *conversation.Program) {
		if err := s.Do(end, func() error {
			program = conversation.Start(t, role, at, again, 1, messages)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return program
	}
	var servers, clients [2]*conversation.Program
	var at [2]netip.AddrPort
	for i := range servers {
		servers[i] = start(1+i, "echo", netip.AddrPortFrom(s.Addr(1+i), 0))
		at[i] = netip.MustParseAddrPort(servers[i].Says())
	}
	if err := s.Do(netns.Hub, func() error {
		return makeGateway(fmt.Sprintf(twinRules, at[0].Addr(), at[0].Port(), at[1].Addr(),
			at[1].Port()))
	}); err != nil {
		t.Fatal(err)
	}
	for i := range clients {
		clients[i] = start(3*i, "twin", netip.AddrPortFrom(s.Addr(netns.Hub), 53))
	}
	var told, echoed [2][]conversation.Call
	for i := range clients {
		told[i], echoed[i] = clients[i].Truth(t), servers[i].Truth(t)
	}
	if told[0][0].Bytes != echoed[0][0].Bytes { // the second client came first
		echoed[0], echoed[1] = echoed[1], echoed[0]
	}
	var truth []conversation.Call
	for i := range told {
		for k := range told[i] {
			told[i][k].Peer, echoed[i][k].Peer = echoed[i][0].Cookie, told[i][0].Cookie
		}
		truth = append(append(truth, told[i]...), echoed[i]...)
	}
	r.endCapture(t)
	m, wanted, missing, lost := comparePipes(t, r.logs, truth, from)
	if wanted != 4*messages || missing > int(m.Left[Alike])+lost ||
		lost == 0 && wanted-missing < messages {
		t.Errorf("%d of %d messages are not matched, %d calls were lost: %+v", missing, wanted,
			lost, m)
	}
}

// makeGateway makes the present namespace a gateway that translates addresses.
func makeGateway(rules string) error {
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

// translatedPorts returns the client's port of each connection that the gateway knows, by the port
// that the gateway uses instead.
func translatedPorts() (map[int]int, error) {
	text, err := os.ReadFile("/proc/thread-self/net/nf_conntrack")
	if err != nil {
		return nil, err
	}
	all := map[int]int{}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "udp") {
			continue
		}
		// The packets of the client come first, then the answers.
		var from, to []int
		for _, word := range strings.Fields(line) {
			if port, is := strings.CutPrefix(word, "sport="); is {
				n, err := strconv.Atoi(port)
				if err != nil {
					return nil, err
				}
				from = append(from, n)
			}
			if port, is := strings.CutPrefix(word, "dport="); is {
				n, err := strconv.Atoi(port)
				if err != nil {
					return nil, err
				}
				to = append(to, n)
			}
		}
		if len(from) == 2 && len(to) == 2 {
			all[to[1]] = from[0]
		}
	}
	return all, nil
}
