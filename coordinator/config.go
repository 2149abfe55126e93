package coordinator

import (
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Config configures a Server. DefaultConfig sets every field.
type Config struct {
	Heartbeat time.Duration // how often clients send a ping
	Dead      time.Duration // a client that is silent for this long loses its registration

	Sweep      SweepOptions  // how sweeps are done unless a request overrides it
	SweepEvery time.Duration // 0: sweep only when nodes join, and around runs
	Settle     time.Duration // after a node joins, how long to wait for more nodes before the sweep

	// AllPairs is the size of the largest fleet in which all pairs of nodes are measured. In a
	// larger fleet each node measures Degree other nodes, along the edges of a graph.
	AllPairs int
	Degree   int

	// Budget is the number of exchanges per second that all nodes together make while a run is
	// open. In a fleet of more than AllPairs nodes, each node makes as many as in a fleet of
	// AllPairs nodes.
	Budget         int
	TrainExchanges int // number of exchanges in each train of an open run

	// Collectors are nodes that fetch the logs of the other nodes of a large fleet when a run is
	// closed, and keep them until the server has fetched them.
	Collectors []string

	AnswerLimit time.Duration // how long to wait for answers that need little work
	Return      time.Duration // how long a run waits for the files of a node that is gone

	Assumptions tscratio.Assumptions // the assumptions for every pair
	ThirdNodes  tscratio.ThirdNodes  // how far other nodes may narrow a bound in the matrix
	LiveTrains  int                  // how many of a pair's newest trains are kept at most
	FlushEvery  time.Duration        // how often measurements are written to disk
}

// SweepOptions determine how a sweep measures all pairs.
type SweepOptions struct {
	Trains     int           // number of trains in each direction of each pair
	Exchanges  int           // number of exchanges in each train
	Gap        time.Duration // pause between the trains of a batch
	Timeout    time.Duration // how long to wait for one answer
	Attempts   int           // how many missing answers in a row are tolerated
	UserStamps bool
	Spin       time.Duration

	// Width is the number of pairs measured at once. If it is 0, the sweep measures as many pairs
	// at once as the cores allow: each node that is being measured needs one core of its machine
	// for itself.
	Width int

	Quiet Quiet

	Nodes []string // the nodes that take part; empty: all nodes
}

// Quiet defines a quiet moment: nodes have little load and traffic. It also limits how long a sweep
// waits for a quiet moment before each round.
type Quiet struct {
	Over         time.Duration // how long nodes are watched; 0: they are not watched
	Limit        time.Duration // the longest wait
	Busy_ppm     int64         // the largest load, as a part of all cores of a node
	BytesASecond uint64        // the largest traffic of a node, in each direction
}

// DefaultConfig returns a configuration with a heartbeat each second, a sweep each minute, and
// 2,000 exchanges a second during runs.
func DefaultConfig() Config {
	return Config{
		Heartbeat:      time.Second,
		Dead:           4 * time.Second,
		Sweep:          defaultSweep(),
		SweepEvery:     time.Minute,
		Settle:         500 * time.Millisecond,
		AllPairs:       30,
		Degree:         7,
		Budget:         2000,
		TrainExchanges: 5,
		AnswerLimit:    5 * time.Second,
		Return:         30 * time.Second,
		Assumptions:    tscratio.DefaultAssumptions(),
		LiveTrains:     64,
		FlushEvery:     2 * time.Second,
	}
}

// defaultSweep returns options for four trains of 25 exchanges in each direction, at quiet moments.
func defaultSweep() SweepOptions {
	return SweepOptions{
		Trains: 4, Exchanges: 25, Gap: 2 * time.Millisecond,
		Timeout: 100 * time.Millisecond, Attempts: 3,
		Quiet: Quiet{
			Over: 20 * time.Millisecond, Limit: time.Second,
			Busy_ppm: 500_000, BytesASecond: 10 << 20,
		},
	}
}

// maxAllPairs is the largest AllPairs: an order to probe must be able to name all other nodes.
const maxAllPairs = control.MaxTargets + 1

// Validate returns an error that names the first field with an unusable value.
func (c Config) Validate() error {
	switch {
	case c.Heartbeat <= 0 || c.Dead < 2*c.Heartbeat:
		return fmt.Errorf("heartbeat %v, dead %v: dead must be at least twice the heartbeat",
			c.Heartbeat, c.Dead)
	case c.SweepEvery < 0 || c.Settle < 0:
		return fmt.Errorf("sweep_every %v, settle %v: want no negative time",
			c.SweepEvery, c.Settle)
	case c.Degree < 2 || c.Degree > control.MaxNeighbours/2:
		return fmt.Errorf("degree %d: want 2 to %d", c.Degree, control.MaxNeighbours/2)
	case c.AllPairs <= c.Degree || c.AllPairs > maxAllPairs:
		return fmt.Errorf("all_pairs %d: want more than the degree, which is %d, and at most %d",
			c.AllPairs, c.Degree, maxAllPairs)
	case c.Budget < 1 || c.Budget > 1_000_000:
		return fmt.Errorf("budget %d: want 1 to 1,000,000 exchanges a second", c.Budget)
	case c.AnswerLimit <= 0 || c.FlushEvery <= 0 || c.Return < 0:
		return fmt.Errorf("answer_limit %v, flush_every %v, return %v: want more than 0",
			c.AnswerLimit, c.FlushEvery, c.Return)
	case len(c.Collectors) > control.MaxNeighbours:
		return fmt.Errorf("%d collectors: want at most %d", len(c.Collectors),
			control.MaxNeighbours)
	case c.LiveTrains < 4:
		return fmt.Errorf("live_trains %d: want at least 4", c.LiveTrains)
	}
	if err := c.Sweep.Validate(); err != nil {
		return err
	}
	anchors := c.Sweep
	anchors.Exchanges = c.TrainExchanges
	if err := anchors.train().Validate(); err != nil {
		return fmt.Errorf("train_exchanges: %w", err)
	}
	return nil
}

// train returns the options as a minrtt.Config. The Validate method of the result finds options
// that nodes would refuse, before the server orders any train.
func (o SweepOptions) train() minrtt.Config {
	return minrtt.Config{Exchanges: o.Exchanges, Timeout: o.Timeout, Attempts: o.Attempts}
}

// Validate returns an error that names the first field with an unusable value.
func (o SweepOptions) Validate() error {
	if err := o.train().Validate(); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	switch {
	case o.Trains < 1 || o.Trains > control.MaxTrains:
		return fmt.Errorf("sweep: %d trains: want 1 to %d", o.Trains, control.MaxTrains)
	case o.Trains*o.Exchanges*4 > control.MaxBatchStamps:
		return fmt.Errorf("sweep: %d exchanges in %d trains: want no more than %d in all",
			o.Exchanges, o.Trains, control.MaxBatchStamps/4)
	case o.Gap < 0 || o.Spin < 0 || o.Width < 0:
		return fmt.Errorf("sweep: gap %v, spin %v, width %d: want nothing negative",
			o.Gap, o.Spin, o.Width)
	case o.Quiet.Over < 0 || o.Quiet.Limit < 0:
		return fmt.Errorf("sweep: quiet over %v, limit %v: want no negative time",
			o.Quiet.Over, o.Quiet.Limit)
	}
	return nil
}

// directionLimit is the longest time allowed for one direction of a pair. It allows a hundred times
// what exchanges take on a good link, plus the time for missing answers.
func (o SweepOptions) directionLimit() time.Duration {
	exchanges := time.Duration(o.Exchanges+2) * 2 * time.Millisecond
	return 100*time.Millisecond + time.Duration(o.Trains)*(o.Gap+exchanges) +
		time.Duration(o.Attempts)*o.Timeout
}
