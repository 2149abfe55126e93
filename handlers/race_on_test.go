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
	programs["two writers"] = func() error { return writers(false) }
	programs["handed over"] = func() error { return writers(true) }
}

const (
	raceHandler   = "RACE_HANDLER"
	raceDirectory = "RACE_DIRECTORY"
)

// writers makes two goroutines log to a channel of Open. With handOver, each hands the channel to
// the other. Without handOver, both log at once.
func writers(handOver bool) error {
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

// Race builds report two goroutines that log at once to a channel of Open, for every handler. They
// do not report a goroutine that got the channel from another goroutine.
func TestRaceDetectorSeesTwoWriters(t *testing.T) {
	for _, handler := range allHandlers {
		if handler.name == "null" {
			continue // null writes nothing
		}
		for program, want := range map[string]bool{"two writers": true, "handed over": false} {
			t.Run(fmt.Sprintf("%s/%s", handler.name, program), func(t *testing.T) {
				cmd := command(t, program, raceHandler+"="+handler.name,
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
