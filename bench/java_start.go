package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/jvm"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// AgentStart says how much longer one Java takes to start and end if it has the agent: in ms, one
// value for each pair of starts.
type AgentStart struct {
	Release  int
	Added_ms []float64
}

// startPairs is the number of pairs of starts, one with the agent and one without.
const startPairs = 11

// startAgent measures the agent's start. If Maven did not build the agent, it measures nothing.
func (r *JavaResult) startAgent(ctx context.Context, kit *jvm.Kit, rings string) error {
	jar := kit.AgentJar()
	if jar == "" {
		return nil
	}
	info, err := os.Stat(jar)
	if err != nil {
		return err
	}
	r.Agent_bytes = info.Size()
	for _, java := range kit.Javas {
		row := AgentStart{Release: java.Release}
		for range startPairs {
			alone, err := commandTime(ctx, kit.Start(java), rings)
			if err != nil {
				return fmt.Errorf("start Java %d: %w", java.Release, err)
			}
			with, err := commandTime(ctx, kit.Start(java, "-javaagent:"+jar), rings)
			if err != nil {
				return fmt.Errorf("start Java %d with the agent: %w", java.Release, err)
			}
			row.Added_ms = append(row.Added_ms, (with-alone).Seconds()*1e3)
		}
		r.Starts = append(r.Starts, row)
	}
	return nil
}

// commandTime returns how long a command takes.
func commandTime(ctx context.Context, cmd *exec.Cmd, rings string) (time.Duration, error) {
	cmd.Env = append(os.Environ(), ring.DirectoryVariable+"="+rings)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return time.Since(began), cmp.Or(ctx.Err(), err)
}
