package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

// nodesLimit is how long a command waits until the server has evaluated its fleet. 10,000 nodes on
// a loaded machine may take a minute. nodesLimit is a variable, so that a test need not wait.
var nodesLimit = 3 * time.Minute

// askNodes asks for all nodes and pairs. Meanwhile it shows how far the server is with the answer.
func askNodes(cmd *cobra.Command, link *link, request coordinator.NodesRequest,
	m *coordinator.Matrix) error {
	// This question is answered at once. If no server answers it, waiting longer does not help.
	progress, says, err := askProgress(cmd.Context(), link)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), nodesLimit)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- link.Ask(ctx, coordinator.AskNodes, request, m) }()
	p := command.NewProgress(cmd.ErrOrStderr())
	defer p.Done()
	for {
		select {
		case err := <-answered:
			if errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("%w: after %v the server had evaluated %d of %d pairs: its "+
					"machine may have too much other work, so ask again later, or ask for one "+
					"pair: cprof nodes FROM INTO", err, nodesLimit, progress.Evaluated,
					progress.Pairs)
			}
			return err
		case <-time.After(nodesLimit / 200):
		}
		if !says {
			continue
		}
		if now, _, err := askProgress(ctx, link); err == nil && now.Pairs > 0 {
			progress = now
			p.Show("the server evaluates the fleet: %d of %d pairs", now.Evaluated, now.Pairs)
		}
	}
}

// askProgress asks how far the server is with the answer to AskNodes. A server of an earlier
// release does not say this.
func askProgress(ctx context.Context, link *link) (p coordinator.Progress, says bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err = link.Ask(ctx, coordinator.AskProgress, nil, &p)
	var refused *control.RefusedError
	if errors.As(err, &refused) && refused.Code == control.UnknownKind {
		return p, false, nil
	}
	return p, err == nil, err
}
