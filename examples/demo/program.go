package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/examples/adstream/job"
)

// program is the process that runs a node's part of the job. It takes the place of the program that
// a user instruments.
type program struct{ setup programSetup }

func (p program) close() error { return nil }

func (p program) obey(ctx context.Context, o order) (r report, err error) {
	if o.Do != orderWork {
		return r, fmt.Errorf("unknown order %q", o.Do)
	}
	cluster, err := job.StartCluster(p.setup.Placement, p.setup.Node)
	if err != nil {
		return r, err
	}
	options := job.Options{Name: runName, Rings: p.setup.Rings}
	options.Channels.Policy = "block"
	result, err := cluster.Run(ctx, options)
	return report{Job: &result}, errors.Join(err, cluster.Close())
}
