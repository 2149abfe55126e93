package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/sim/config"
	"github.com/cloudprofiler/cloudprofiler/sim/library"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// buildExample builds the simulation of an example file, with other values for some keys.
func buildExample(t testing.TB, workers int, out io.Writer, set ...string) *library.Simulation {
	t.Helper()
	b, err := os.ReadFile("../../configs/coordinator.conf")
	if err != nil {
		t.Fatal(err)
	}
	f, err := config.Parse("coordinator.conf", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(set); i += 2 {
		f.Set(set[i], set[i+1])
	}
	s, err := library.Build(f, library.Options{Workers: workers, Out: out, Classes: Classes()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func digestOf(t *testing.T, s *library.Simulation) string {
	t.Helper()
	sum, err := s.World.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum)
}

func run(t *testing.T, workers int, set ...string) (out, digest string) {
	t.Helper()
	var text bytes.Buffer
	s := buildExample(t, workers, &text, set...)
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return text.String(), digestOf(t, s)
}

// lastNumber returns the number with the given name from the last line that an observer printed.
func lastNumber(t *testing.T, out, name string) float64 {
	t.Helper()
	all := regexp.MustCompile(` `+name+`=([0-9.]+)`).FindAllStringSubmatch(out, -1)
	if len(all) == 0 {
		t.Fatalf("no %s in\n%s", name, out)
	}
	v, err := strconv.ParseFloat(all[len(all)-1][1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// smallFleet is a fleet in which nodes only measure neighbours. Some lie, some counters are
// interrupted, and nodes die and join.
var smallFleet = []string{"SIZE", "45", "GROWN", "8s", "MEASURED", "25s", "LIARS", "0.1",
	"CHURN", "0.03", "protocol.clients.lie", "10ms", "protocol.clients.suspend", "150s",
	"control.fleet.step", "5s"}

// TestServer runs a small fleet under the product's server.
func TestServer(t *testing.T) {
	if seed.Race {
		smallFleet = append(smallFleet, "SIZE", "12", "GROWN", "4s", "MEASURED", "4s")
	}
	out, digest := run(t, 1, smallFleet...)
	if again, sum := run(t, 2, smallFleet...); again != out || sum != digest {
		t.Errorf("two workers give another result:\n%s\nwant\n%s", again, out)
	}
	if seed.Race {
		return
	}
	if n := lastNumber(t, out, "alive"); n < 40 || n > 60 {
		t.Errorf("%v nodes live", n)
	}
	pairs, related := lastNumber(t, out, "pairs"), lastNumber(t, out, "related")
	if related < pairs*3/4 {
		t.Errorf("%v of %v random pairs are related", related, pairs)
	}
	for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if lastNumber(t, line, "outside") != 0 || lastNumber(t, line, "innocent") != 0 {
			t.Errorf("a bound misses the truth, or an innocent node is accused: %s", line)
		}
		if i > 0 && lastNumber(t, line, "related") == 0 {
			t.Errorf("nothing is related: %s", line)
		}
	}
	if liars, found := lastNumber(t, out, "liars"), lastNumber(t, out, "found"); liars == 0 ||
		found == 0 {
		t.Errorf("%v liars, %v of them found", liars, found)
	}
	if median := lastNumber(t, out, "median"); median < 20 || median > 200 {
		t.Errorf("the median is %v µs", median)
	}
	if joined, join := lastNumber(t, out, "joined"), lastNumber(t, out, "join"); joined < 40 ||
		join > 5 {
		t.Errorf("%v nodes joined, in %v s", joined, join)
	}
	if t.Failed() {
		t.Log("\n" + out)
	}
}

// TestServerRestarts continues from checkpoints. The simulation must print the same as without a
// break, and end in the same state.
func TestServerRestarts(t *testing.T) {
	seed.NotUnderRace(t, "TestServer runs the same code side by side")
	type saved struct {
		printed int
		state   bytes.Buffer
	}
	var all []*saved
	var text bytes.Buffer
	whole := buildExample(t, 1, &text, smallFleet...)
	if err := whole.Start(); err != nil {
		t.Fatal(err)
	}
	if err := whole.World.RunEach(context.Background(), 13_000e6, func() error {
		s := &saved{printed: text.Len()}
		all = append(all, s)
		return whole.World.WriteCheckpoint(&s.state, [32]byte{1})
	}); err != nil || len(all) < 2 {
		t.Fatalf("%d checkpoints, %v", len(all), err)
	}
	want, digest := text.String(), digestOf(t, whole)
	for i, s := range all {
		var text bytes.Buffer
		again := buildExample(t, 1+i%2, &text, smallFleet...)
		if err := again.World.Restore([32]byte{1}, &s.state); err != nil {
			t.Fatal(err)
		}
		if err := again.World.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := digestOf(t, again); got != digest || text.String() != want[s.printed:] {
			t.Errorf("from checkpoint %d: digest %s, want %s\n%s\nwant\n%s", i, got, digest,
				text.String(), want[s.printed:])
		}
	}
}

// TestDamagedServer reads states that are too short, or in which a byte is wrong. Each such state
// must be refused, or the simulation must run on with it. The simulation must not panic.
func TestDamagedServer(t *testing.T) {
	s := buildExample(t, 1, io.Discard, "SIZE", "4", "GROWN", "2s", "MEASURED", "2s", "LIARS", "0")
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	type part interface {
		Allocate(shard int)
		Encode(shard int, to []byte) []byte
		Decode(shard int, from []byte) ([]byte, error)
	}
	r := seed.Random(t)
	damaged := 0
	for number := range uint8(5) {
		p, ok := s.World.Protocol(number).(part)
		if _, agents := p.(interface{ LeaveTrains() }); !ok || agents {
			continue
		}
		damaged++
		good := p.Encode(0, nil)
		decode := func(b []byte) error {
			p.Allocate(0)
			rest, err := p.Decode(0, b)
			if err == nil && len(rest) > 0 {
				return errors.New("bytes are left")
			}
			return err
		}
		if err := decode(good); err != nil || !bytes.Equal(p.Encode(0, nil), good) {
			t.Fatalf("protocol %d: the state differs: %v", number, err)
		}
		if err := decode(append([]byte{2}, good[1:]...)); err == nil ||
			!strings.Contains(err.Error(), "version 2") {
			t.Errorf("version 2: %v", err)
		}
		for range 8 {
			if err := decode(good[:r.IntN(len(good))]); err == nil {
				t.Fatal("half a state is no error")
			}
			b := bytes.Clone(good)
			b[1+r.IntN(len(b)-1)] ^= 1 << r.IntN(8)
			_ = decode(b) // must not panic
		}
	}
	if damaged != 2 {
		t.Errorf("%d protocols were damaged, want the server and the clients", damaged)
	}
}

// TestWrongServers reads wrong configurations.
func TestWrongServers(t *testing.T) {
	const text = "network.size 20\nsimulation.endtime 1s\n" +
		"protocol.net UniformRandomTransport\nprotocol.net.mindelay 1ms\n" +
		"protocol.agents OverlayAgents\nprotocol.agents.transport net\n" +
		"protocol.server Coordinator\nprotocol.server.transport net\n" +
		"protocol.clients CoordinatorClient\nprotocol.clients.transport net\n" +
		"protocol.clients.agents agents\n"
	for add, want := range map[string]string{
		"protocol.clients.server agents": `"protocol.agents" is not of the class Coordinator`,
		"protocol.clients.server server\nprotocol.server.allpairs 5": `all_pairs 5: want more ` +
			`than the degree`,
		"protocol.clients.server server\nprotocol.clients.liers 0.1": `"protocol.clients.liers"`,
		"protocol.clients.server server\ninit.a AgentJoin\n" +
			"init.a.protocol net": `neither agents nor their clients`,
	} {
		f, err := config.Parse("x", strings.NewReader(text+add+"\n"))
		if err == nil {
			_, err = library.Build(f, library.Options{Classes: Classes()})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", add, err, want)
		}
	}
}
