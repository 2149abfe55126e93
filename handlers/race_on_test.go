//go:build race

package handlers

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func init() {
	programs["two writers"] = func() error { return runWriters(false) }
	programs["handed over"] = func() error { return runWriters(true) }
}

const (
	raceHandler   = "RACE_HANDLER"
	raceDirectory = "RACE_DIRECTORY"
)

// runWriters makes two goroutines log to a channel that Open returned. If handOver is true, only
// one of them uses the channel at a time, and then passes it to the other. If not, both log at
// once.
func runWriters(handOver bool) error {
	c, err := Open("race/start",
		Options{Handler: os.Getenv(raceHandler), Params: raceParams[os.Getenv(raceHandler)],
			Policy: "drop", Buffer: "256", Dir: os.Getenv(raceDirectory)})
	if err != nil {
		return err
	}
	log, turn := callOf(c), make(chan bool, 1)
	var both sync.WaitGroup
	for w := range uint64(2) {
		both.Go(func() {
			for n := range uint64(100) {
				if handOver {
					turn <- true
				}
				log(n<<1 | w)
				if handOver {
					<-turn
				}
				if n%10 == 0 {
					time.Sleep(time.Microsecond) // lets the other goroutine log
				}
			}
		})
	}
	both.Wait()
	return c.Close()
}

var raceParams = map[string]map[string]any{"downsample": {"n": 3}, "xoy": {"x": 2, "y": 5}}

// A build with the race detector reports two goroutines that log at once to a channel that Open
// returned, for every handler. It does not report a goroutine that got the channel from another
// goroutine.
func TestRaceDetectorSeesTwoWriters(t *testing.T) {
	for _, handler := range allHandlers {
		if handler.name == "null" {
			continue // null writes nothing
		}
		for program, want := range map[string]bool{"two writers": true, "handed over": false} {
			t.Run(fmt.Sprintf("%s/%s", handler.name, program), func(t *testing.T) {
				cmd := programCommand(t, program, raceHandler+"="+handler.name,
					raceDirectory+"="+t.TempDir(), "GORACE=exitcode=66 atexit_sleep_ms=0")
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				err := cmd.Run()
				reported := strings.Contains(stderr.String(), "DATA RACE") &&
					cmd.ProcessState.ExitCode() == 66
				if reported != want || !want && err != nil {
					t.Errorf("race reported: %v, want %v (%v):\n%s", reported, want, err,
						stderr.String())
				}
			})
		}
	}
}
