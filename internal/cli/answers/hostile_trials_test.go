package answers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// trialVariable names an environment variable. If it is set, a test's process runs trials. The
// variable contains the number of the first trial, and how many trials to run.
const trialVariable = "CLOUDPROFILER_TRIAL"

// TestTrial runs in the other processes that tryMany starts, because a panic ends a process.
func TestTrial(t *testing.T) {
	text := os.Getenv(trialVariable)
	if text == "" {
		return // no process asked this one for trials
	}
	var first, n uint64
	if _, err := fmt.Sscanf(text, "%d %d", &first, &n); err != nil {
		t.Fatal(err)
	}
	trial, err := newTrial(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		fmt.Printf("try %d\n", first+i)
		if err := trial.try(first + i); err != nil {
			fmt.Printf("wrong %q\n", err.Error())
		}
	}
	sums, err := json.Marshal(trial.sums)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("sums %s\n", sums)
}

// trialOutcomes has the outcomes of many trials. Several goroutines may use it.
type trialOutcomes struct {
	mu sync.Mutex
	trialSums
	panics, hangs, wrong int
	says                 []string // the messages of the first failures
	peak_bytes           int64
}

// patience is how long one trial may take: about a thousand times what a trial usually takes.
const patience = 5 * time.Minute

// tryMany runs n trials, from number first on, in other processes. If a trial ends its process,
// tryMany goes on with the next trial.
func tryMany(t *testing.T, first, n uint64) *trialOutcomes {
	t.Helper()
	all := new(trialOutcomes)
	const each = 500 // trials in one process; few, so that its memory does not grow
	var next atomic.Uint64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for {
				from := next.Add(each) - each
				if from >= n {
					return
				}
				for end := min(from+each, n); from < end; {
					from = all.process(t, first+from, end-from) - first
				}
			}
		})
	}
	group.Wait()
	return all
}

// process runs trials in one process. It returns the number after the last trial that was run.
func (all *trialOutcomes) process(t *testing.T, first, n uint64) (next uint64) {
	t.Helper()
	cmd, err := reexec.Command("-test.run=^TestTrial$", "-test.timeout=0")
	if err != nil {
		t.Error(err)
		return first + n
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", trialVariable, first, n), "GOMAXPROCS=2")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return first + n
	}
	var hangs atomic.Bool
	kill := time.AfterFunc(patience, func() {
		hangs.Store(true)
		cmd.Process.Signal(syscall.SIGQUIT)
	})
	at, sums := first, (*trialSums)(nil)
	lines := bufio.NewScanner(out)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "try":
			kill.Reset(patience)
			if at, err = strconv.ParseUint(rest, 10, 64); err != nil {
				t.Error(err)
			}
		case "wrong":
			text, _ := strconv.Unquote(rest)
			all.say(&all.wrong, at, text)
		case "sums":
			sums = new(trialSums)
			if err := json.Unmarshal([]byte(rest), sums); err != nil {
				t.Error(err)
			}
		}
	}
	err = cmd.Wait()
	kill.Stop()
	switch {
	case hangs.Load():
		all.say(&all.hangs, at, "it takes longer than "+patience.String()+":\n"+stderr.String())
	case sums == nil:
		all.say(&all.panics, at, fmt.Sprintf("%v: %s", err, stderr.String()))
		sums = new(trialSums)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.Answered, all.Partial, all.Refused, all.Compared = all.Answered+sums.Answered,
		all.Partial+sums.Partial, all.Refused+sums.Refused, all.Compared+sums.Compared
	all.peak_bytes = max(all.peak_bytes, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10)
	return at + 1
}

// The method say counts a failure. For the first few failures, it also keeps how to repeat them.
func (all *trialOutcomes) say(count *int, number uint64, what string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	*count++
	if len(all.says) < 20 {
		all.says = append(all.says, fmt.Sprintf("%s=%d: %.4000s", seed.Variable, number, what))
	}
}

// tell fails the test if something went wrong, and says what.
func (all *trialOutcomes) tell(t *testing.T) {
	t.Helper()
	for _, text := range all.says {
		t.Error(text)
	}
	t.Logf("%+v, at most %d MiB", all.trialSums, all.peak_bytes>>20)
}

// If parts of a run are wrong, the answer still covers the other parts. About intact nodes it says
// the same as the answer about the unchanged run.
func TestHostileRuns(t *testing.T) {
	seed.NotUnderRace(t, "the other tests answer side by side too")
	if testing.Short() {
		t.Skip("takes seconds")
	}
	first := seed.Of(t)
	all := tryMany(t, first, 60)
	all.tell(t)
	if all.Answered == 0 || all.Compared == 0 {
		t.Errorf("nothing was tried: %+v", all.trialSums)
	}
}

// TestBarHostileRuns does the same as TestHostileRuns, with more runs. make prove runs it.
func TestBarHostileRuns(t *testing.T) {
	n := uint64(120)
	if proof.Begin(t) == proof.Full {
		n = 100_000
	}
	begun := time.Now()
	all := tryMany(t, seed.Of(t), n)
	all.tell(t)
	t.Logf("%.1f a second", float64(n)/time.Since(begun).Seconds())
	proof.Check(t,
		proof.Bar{Name: fmt.Sprintf("panics in analyze, report, export, diff and salvage of %d "+
			"runs with other logs, relations or run.yaml, checksums mended", n),
			Figure: float64(all.panics), Unit: "panics"},
		proof.Bar{Name: "of these that take longer than " + patience.String(),
			Figure: float64(all.hangs), Unit: "hangs"},
		proof.Bar{Name: "of these in which what is left is not answered, or an intact node's " +
			"answer is another", Figure: float64(all.wrong), Unit: "runs"},
		proof.Bar{Name: "of these in which intact nodes' answers were compared",
			Figure: float64(all.Compared), Limit: float64(n) / 10, AtLeast: true, Unit: "runs"},
		proof.Bar{Name: "memory", Figure: float64(all.peak_bytes) / (1 << 20), Limit: 1024,
			Unit: "MiB"},
	)
}
