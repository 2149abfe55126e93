package job

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// ErrPlacement is returned for a placement that cannot be used.
var ErrPlacement = errors.New("bad placement")

// Stages are the names of the operators, in the order in which tuples pass them.
var Stages = []string{"source", "deserialise", "filter", "project", "join", "count", "store"}

// Placement is a placement file: the nodes, where each operator runs, and the stream. FORMAT.md
// describes it.
type Placement struct {
	Version int                 `yaml:"version"`
	Nodes   []Node              `yaml:"nodes"`
	Actors  map[string][]string `yaml:"actors"` // by operator: the nodes of its instances, in order
	Stream  Stream              `yaml:"stream"`

	// ReturnTrip says whether the operator count acknowledges each tuple to source#0. See package
	// returntrip.
	ReturnTrip bool `yaml:"return_trip"`
}

// Node is one node of the cluster.
type Node struct {
	Name           string `yaml:"name"`
	Number         int    `yaml:"number"` // used in tuple ids; 0: its place in the list, from 1
	Address        string `yaml:"address"`
	ClientPort     int    `yaml:"client_port"`      // 0: 4222
	ClusterPort    int    `yaml:"cluster_port"`     // 0: 6222
	ReturnTripPort int    `yaml:"return_trip_port"` // 0: 7222
}

func (n *Node) client() string  { return net.JoinHostPort(n.Address, strconv.Itoa(n.ClientPort)) }
func (n *Node) cluster() string { return net.JoinHostPort(n.Address, strconv.Itoa(n.ClusterPort)) }
func (n *Node) returnTrip() string {
	return net.JoinHostPort(n.Address, strconv.Itoa(n.ReturnTripPort))
}

// Stream describes the events that the sources make. The same seed makes the same events.
type Stream struct {
	Tuples         int           `yaml:"tuples"`     // number of tuples of all sources together
	PerSecond      float64       `yaml:"per_second"` // rate of all sources; 0: as fast as possible
	Seed           uint64        `yaml:"seed"`
	Campaigns      int           `yaml:"campaigns"`        // 0: 100, as in the benchmark
	AdsPerCampaign int           `yaml:"ads_per_campaign"` // 0: 10
	Window         time.Duration `yaml:"window"`           // length in event time; 0: 10s
	InFlight       int           `yaml:"in_flight"`        // from one instance to another; 0: 512

	// Keep is how long counts stay in the key-value store. 0: as long as the cluster runs.
	Keep time.Duration `yaml:"keep"`

	// Begin_us is the event time of the first tuple, in µs since 1970. 0: a tuple's event time is
	// when the tuple was due.
	Begin_us int64 `yaml:"begin_us"`
}

// These limits keep sums of a file's numbers from overflowing.
const (
	maxNodes     = 100
	maxTuples    = 1 << 32
	maxInstances = 64
	maxAds       = 1_000_000
	maxFileBytes = 1 << 20
)

// ReadPlacement reads a placement file. Errors in its content wrap ErrPlacement.
func ReadPlacement(path string) (*Placement, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read placement: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read placement: %w", err)
	}
	p, err := ParsePlacement(text)
	if err != nil {
		return nil, fmt.Errorf("read placement %q: %w", path, err)
	}
	return p, nil
}

// ParsePlacement reads a placement, sets the values that the text leaves out, and validates the
// result. Errors wrap ErrPlacement.
func ParsePlacement(text []byte) (*Placement, error) {
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("more than %d bytes: %w", maxFileBytes, ErrPlacement)
	}
	var p Placement
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrPlacement)
	}
	if p.Version != 1 {
		return nil, fmt.Errorf("version %d: this program knows version 1: %w",
			p.Version, ErrPlacement)
	}
	p.fill()
	return &p, p.Validate()
}

func (p *Placement) fill() {
	or := func(v *int, fallback int) {
		if *v == 0 {
			*v = fallback
		}
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		or(&n.Number, i+1)
		or(&n.ClientPort, 4222)
		or(&n.ClusterPort, 6222)
		or(&n.ReturnTripPort, 7222)
	}
	or(&p.Stream.Campaigns, 100)
	or(&p.Stream.AdsPerCampaign, 10)
	or(&p.Stream.InFlight, 512)
	if p.Stream.Window == 0 {
		p.Stream.Window = 10 * time.Second
	}
}

// Validate returns an error with everything that is wrong. The error wraps ErrPlacement.
func (p *Placement) Validate() error {
	var found []error
	bad := func(format string, args ...any) {
		found = append(found, fmt.Errorf(format+": %w", append(args, ErrPlacement)...))
	}
	if len(p.Nodes) == 0 || len(p.Nodes) > maxNodes {
		bad("%d nodes: use 1 to %d", len(p.Nodes), maxNodes)
	}
	names := map[string]bool{}
	for _, n := range p.Nodes {
		if !validName(n.Name) || names[n.Name] {
			bad("node name %q: use letters, digits, '-' and '_', and each name once", n.Name)
		}
		names[n.Name] = true
		if _, err := netip.ParseAddr(n.Address); err != nil {
			bad("address %q of node %q: use an IP address", n.Address, n.Name)
		}
		for _, port := range []int{n.ClientPort, n.ClusterPort, n.ReturnTripPort} {
			if port < 1 || port > 65535 {
				bad("port %d of node %q: use 1 to 65535", port, n.Name)
			}
		}
		if n.Number < 0 || n.Number > channel.MaxNode {
			bad("number %d of node %q: use 0 to %d", n.Number, n.Name, channel.MaxNode)
		}
	}
	for stage, nodes := range p.Actors {
		if !slices.Contains(Stages, stage) {
			bad("operator %q: use one of %s", stage, strings.Join(Stages, ", "))
		}
		for _, n := range nodes {
			if !names[n] {
				bad("operator %q is on node %q: add this node to the list of nodes", stage, n)
			}
		}
	}
	for _, stage := range Stages {
		if n := len(p.Actors[stage]); n < 1 || n > maxInstances {
			bad("operator %q has %d instances: name the nodes of 1 to %d", stage, n, maxInstances)
		}
	}
	p.Stream.validate(bad)
	if p.ReturnTrip && len(p.Actors["source"]) > 1 {
		bad("return_trip with %d sources: use one source", len(p.Actors["source"]))
	}
	return errors.Join(found...)
}

func validName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return name != "" && strings.Trim(name, letters+"0123456789-_") == ""
}

func (s *Stream) validate(bad func(format string, args ...any)) {
	if s.Tuples < 0 || s.Tuples > maxTuples {
		bad("tuples %d: use 0 to %d", s.Tuples, maxTuples)
	}
	if !(s.PerSecond >= 0 && s.PerSecond <= 1e9) {
		bad("per_second %v: use 0 to 1e9", s.PerSecond)
	}
	if s.Campaigns < 1 || s.AdsPerCampaign < 1 ||
		s.Campaigns > maxAds || s.AdsPerCampaign > maxAds/s.Campaigns {
		bad("campaigns %d with ads_per_campaign %d: use 1 or more, and no more than %d ads in all",
			s.Campaigns, s.AdsPerCampaign, maxAds)
	}
	if s.Window < time.Millisecond || s.Window%time.Microsecond != 0 {
		bad("window %s: use 1ms or more, in whole microseconds", s.Window)
	}
	if s.Keep < 0 || s.Keep > 0 && s.Keep < time.Second {
		bad("keep %s: use 1s or more, or 0", s.Keep)
	}
	if s.InFlight < 4 || s.InFlight > 1<<16 {
		bad("in_flight %d: use 4 to %d", s.InFlight, 1<<16)
	}
	if s.Begin_us < 0 || s.Begin_us > 1<<61 {
		bad("begin_us %d: use 0 to %d", s.Begin_us, int64(1<<61))
	}
}

// findNode finds a node by its name.
func (p *Placement) findNode(name string) *Node {
	for i := range p.Nodes {
		if p.Nodes[i].Name == name {
			return &p.Nodes[i]
		}
	}
	return nil
}

// OnLoopback gives each node a random address of its own on this machine's loopback interface, so
// that several clusters do not collide.
func (p *Placement) OnLoopback() {
	address := [4]byte{127, byte(1 + rand.IntN(254)), byte(rand.IntN(256)), 0}
	for i := range p.Nodes {
		address[3] = byte(1 + i)
		p.Nodes[i].Address = netip.AddrFrom4(address).String()
	}
}
