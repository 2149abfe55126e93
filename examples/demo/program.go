package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/examples/adstream/job"
)

// jobProgram is the process that runs a node's part of the job. It takes the place of the program
// that a user instruments.
type jobProgram struct{ setup programSetup }

func (p jobProgram) close() error { return nil }

func (p jobProgram) obey(ctx context.Context, o order) (r orderReport, err error) {
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
	return orderReport{Job: &result}, errors.Join(err, cluster.Close())
}
