package simulate

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/sim/config"
	"github.com/cloudprofiler/cloudprofiler/sim/library"
)

// Average is a configuration for the experiments E1, E4 and E6. Infection is one for E2, E3 and E5.
// The map Order.Set changes keys of these configurations.
const (
	Average   = "average"
	Infection = "infection"
)

const network = `
CYCLE 1s
MIN 20ms
MAX 200ms
network.size SIZE
simulation.endtime CYCLES*CYCLE
protocol.link IdleProtocol
protocol.link.capacity K
protocol.tr UniformRandomTransport
protocol.tr.mindelay MIN
protocol.tr.maxdelay MAX
init.a WireKOut
init.a.k K
init.a.protocol link
`

var configurations = map[string]string{
	Average: network + `
K 20
protocol.avg AverageED
protocol.avg.linkable link
protocol.avg.transport tr
protocol.avg.step CYCLE
init.b LinearDistribution
init.b.protocol avg
init.b.min 0
init.b.max 100
init.c CDScheduler
init.c.protocol avg
init.c.randstart
control.o SingleValueObserver
control.o.protocol avg
control.o.step EVERY
`,
	Infection: network + `
K 20
protocol.inf InfectionED
protocol.inf.linkable link
protocol.inf.transport tr
protocol.inf.degree DEGREE
protocol.inf.limit LIMIT
init.b InfectionSeed
init.b.protocol inf
init.b.seeds SEEDS
control.o InfectionObserver
control.o.protocol inf
control.o.step EVERY
`}

// An Order is one simulation.
type Order struct {
	Configuration string            `json:"configuration"`
	Set           map[string]string `json:"set"`
	Workers       int               `json:"workers"`
}

// A Result says what one simulation did, and what it cost.
type Result struct {
	Events  uint64 `json:"events"`
	Local   uint64 `json:"local_messages"`
	Remote  uint64 `json:"remote_messages"`
	Windows uint64 `json:"windows"`
	// LocalDelay_ns and RemoteDelay_ns are the mean simulated delays of local and of remote
	// messages.
	LocalDelay_ns  float64 `json:"local_delay_ns"`
	RemoteDelay_ns float64 `json:"remote_delay_ns"`
	CPU_ns         int64   `json:"cpu_ns"`  // of the simulation, without its initialisers
	Wall_ns        int64   `json:"wall_ns"` // the same
	Peak           int64   `json:"peak_bytes"`
	Digest         string  `json:"digest"`
	Observed       string  `json:"observed"`
	Base           int64   `json:"base_bytes"` // memory of the process before it had a node
}

// Rate returns events a second of CPU time.
func (r Result) Rate() float64 { return float64(r.Events) / (float64(r.CPU_ns) / 1e9) }

// Run runs one simulation in this process.
func Run(ctx context.Context, o Order) (r Result, err error) {
	f, err := config.Parse(o.Configuration, strings.NewReader(configurations[o.Configuration]))
	if err != nil {
		return r, err
	}
	for k, v := range o.Set {
		f.Set(k, v)
	}
	var out bytes.Buffer
	s, err := library.Build(f, library.Options{Workers: o.Workers, Out: &out})
	if err != nil {
		return r, err
	}
	// Almost all memory is columns, which never become garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	r.Base = peak()
	if err := s.Start(); err != nil {
		return r, err
	}
	runtime.GC()
	cpu, began := used(), time.Now()
	if err := s.World.Run(ctx); err != nil {
		return r, err
	}
	r.CPU_ns, r.Wall_ns = int64(used()-cpu), int64(time.Since(began))
	r.Peak = peak()
	n := s.World.Counts()
	r.Events, r.Local, r.Remote, r.Windows = n.Events, n.Local, n.Remote, n.Windows
	r.LocalDelay_ns = float64(n.LocalDelay) / max(float64(n.Local), 1)
	r.RemoteDelay_ns = float64(n.RemoteDelay) / max(float64(n.Remote), 1)
	r.Observed = out.String()
	if s.World.Size() <= 1<<20 { // only a small network, because encoding needs memory
		sum, err := s.World.Digest()
		if err != nil {
			return r, err
		}
		r.Digest = hex.EncodeToString(sum[:])
	}
	return r, nil
}

func used() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak returns the largest amount of memory that this process has had, in bytes.
func peak() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Maxrss << 10
}

// Column returns a column of numbers that an observer printed.
func (r Result) Column(column int) (all []float64, err error) {
	for line := range strings.Lines(r.Observed) {
		fields := strings.Fields(line)
		if column >= len(fields) {
			return nil, fmt.Errorf("read %q: no column %d", line, column)
		}
		v, err := strconv.ParseFloat(fields[column], 64)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}
