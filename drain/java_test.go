package drain

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
)

// If a JVM is killed, each accepted record is in the log exactly once or counted as dropped. Two
// JVMs run at a time, and drainers are killed, too.
func TestBarJavaRecordsOnceAfterKills(t *testing.T) {
	kills, least := 15, 3
	if proof.Begin(t) == proof.Full {
		kills, least = 500, 300 // two of three kills hit a JVM
	}
	s := newScene(t)
	name := "logs with a record lost, doubled or uncounted after kills of JVMs"
	javas, err := s.OnlyJava(sharedWriters)
	if err != nil {
		proof.Check(t, proof.Bar{Name: name, Unit: "logs", Absent: err.Error()})
		return
	}
	s.KillAtRandom(rand.New(rand.NewPCG(seed.Of(t), 6)), kills, 30*time.Millisecond,
		func() *exec.Cmd { return s.startDrainer("", 0) })
	records, wrong := s.drainRest()
	jvms := 0
	s.Each(func(*testimony.Testimony) { jvms++ })
	t.Logf("%s: %d JVMs, %d records", javas, jvms, records)
	for i, err := range wrong[:min(len(wrong), 10)] {
		t.Logf("%d: %v", i+1, err)
	}
	proof.Check(t,
		proof.Bar{Name: name, Figure: float64(len(wrong)), Unit: "logs"},
		proof.Bar{Name: fmt.Sprintf("JVMs that logged and were killed, of %s", javas),
			Figure: float64(jvms), Limit: float64(least), AtLeast: true, Unit: "JVMs"},
		proof.Bar{Name: "records in their logs", Figure: float64(records), Limit: 10_000,
			AtLeast: true, Unit: "records"})
}
