package job

import (
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/placement"
)

// Check returns what is wrong with a job's file, without asking a fleet. If the file lists no
// nodes, any name of a node may be right. If it lists no latencies, Check acts as if they were
// known.
func Check(text []byte, name string) error {
	f, err := Parse(text, name, nil)
	if err != nil {
		return err
	}
	latencies, nodes := f.Latencies, f.Job.Nodes
	if latencies == nil {
		for i := range nodes {
			latencies = append(latencies, Latency{From: nodes[0].Name, Into: nodes[i].Name})
		}
	}
	if _, err := f.Connect(latencies); err != nil {
		return fmt.Errorf("check job %q: %w", name, err)
	}
	if _, err := placement.New(&f.Job); err != nil {
		return fmt.Errorf("check job %q: %w", name, err)
	}
	return nil
}
