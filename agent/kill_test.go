package agent

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// killAtRandom kills programs, the agent, or both, and starts them again, a given number of times.
// Meanwhile the agent opens and closes runs, and its disk fills and empties. The result languages
// names the languages in which the programs are written.
func killAtRandom(t testing.TB, rng *rand.Rand,
	kills int) (languages string, records uint64, wrong []error) {
	t.Helper()
	s := newScene(t)
	languages = s.AlsoC(sharedWriters, false)
	s.KillAtRandom(rng, kills, 120*time.Millisecond, func() *exec.Cmd {
		return s.startAgent("", 0)
	})
	records, wrong = s.end()
	return languages, records, wrong
}

// killAtPoint makes agents kill themselves at one fault point (drain.FaultPoint), again and again,
// while programs log.
func killAtPoint(t testing.TB, rng *rand.Rand,
	point drain.FaultPoint) (records uint64, wrong []error) {
	t.Helper()
	s := newScene(t)
	ended := point == drain.BeforeSeal || point == drain.AfterSeal || point == drain.AfterRemove
	deaths := s.KillAtPoint(rng, []int{1, 3, 7, 15}, ended, func(n int) *exec.Cmd {
		return s.startAgent(string(point), n)
	})
	records, wrong = s.end()
	if deaths == 0 {
		wrong = append(wrong, fmt.Errorf("no agent has come to %s", point))
	}
	return records, wrong
}

// Every accepted record is in the logs exactly once or counted as dropped, whichever process is
// killed, and whichever run the agent opens or closes at that moment. The test kills 1,000 times at
// random, on a disk that fills and empties, and at every fault point.
func TestBarRecordsOnceAfterKills(t *testing.T) {
	kills, points := 8, []drain.FaultPoint{drain.AfterWrite, drain.SegmentBegun}
	if proof.Begin(t) == proof.Full {
		kills, points = 1000, drain.FaultPoints()
	}
	rng := rand.New(rand.NewPCG(seed.Of(t), 1))
	languages, records, wrong := killAtRandom(t, rng, kills)
	for _, point := range points {
		more, others := killAtPoint(t, rng, point)
		records, wrong = records+more, append(wrong, others...)
	}
	for i, err := range wrong[:min(len(wrong), 10)] {
		t.Logf("%d: %v", i+1, err)
	}
	proof.Check(t,
		proof.Bar{
			Name: fmt.Sprintf("rings with a record lost, doubled or uncounted, %d kills at random "+
				"of programs in %s and agents, on a disk that fills and empties, and at %d fault "+
				"points, runs opened and closed", kills, languages, len(points)),
			Figure: float64(len(wrong)), Unit: "rings",
		},
		proof.Bar{
			Name: "records in these logs", Figure: float64(records), Limit: 100_000, AtLeast: true,
			Unit: "records",
		},
	)
}

func TestKillsAtRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	_, records, wrong := killAtRandom(t, rand.New(rand.NewPCG(seed.Of(t), 2)), 6)
	for _, err := range wrong {
		t.Error(err)
	}
	if records == 0 {
		t.Error("no records were logged")
	}
}
