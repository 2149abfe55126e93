package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
)

// server is the coordinator's process. It does what tsc-server does, and sends the requests that
// "cprof run" sends.
type server struct {
	store *coordinator.Store
	link  *control.Server
	admin *control.Client
	stop  context.CancelFunc
	ended chan error
}

func startServer(ctx context.Context, s serverSetup) (_ role, says readyAnswer, err error) {
	v := &server{ended: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.close())
		}
	}()
	if v.store, err = coordinator.OpenStore(s.State, s.Runs); err != nil {
		return nil, says, err
	}
	v.link, err = control.Listen(control.ServerConfig{
		Address: s.Address, Key: &s.Key,
		Clients: func() ([]control.Key, error) { return s.Clients, nil },
	})
	if err != nil {
		return nil, says, err
	}
	config := coordinator.DefaultConfig()
	config.SweepEvery, config.Settle = 0, time.Hour // the only sweeps are before and after the run
	if s.Brief {
		config.Sweep.Trains, config.Sweep.Exchanges = 1, 10
		config.Sweep.Quiet = coordinator.Quiet{}
	}
	core, err := coordinator.NewServer(v.link, config, v.store, nil)
	if err != nil {
		return nil, says, err
	}
	ctx, v.stop = context.WithCancel(ctx)
	go func() { v.ended <- core.Run(ctx) }()
	v.admin, err = control.Dial(control.ClientConfig{
		Server: v.link.Address(), Key: &s.Admin, Public: s.Key.Public,
	})
	return v, readyAnswer{Server: v.link.Address()}, err
}

func (v *server) close() error {
	var errs []error
	if v.admin != nil {
		errs = append(errs, v.admin.Close())
	}
	if v.stop != nil {
		v.stop()
		errs = append(errs, <-v.ended)
	}
	if v.link != nil {
		errs = append(errs, v.link.Close())
	}
	if v.store != nil {
		errs = append(errs, v.store.Close())
	}
	return errors.Join(errs...)
}

// runName is the run's name, and nodeA its reference node.
const (
	runName = "demo"
	nodeA   = "A"
)

func (v *server) obey(ctx context.Context, o order) (r orderReport, err error) {
	switch o.Do {
	case orderStartRun:
		var names []string
		all := func() (bool, error) { return len(names) == o.Count, nil }
		if err := v.repeatUntil(ctx, coordinator.AskRegistered, &names, all); err != nil {
			return r, fmt.Errorf("wait until %d nodes are registered: %w", o.Count, err)
		}
		request := coordinator.RunRequest{
			Name: runName, Reference: nodeA, Note: "a demonstration, on virtual nodes",
		}
		if err := v.admin.Ask(ctx, coordinator.AskStartRun, request, nil); err != nil {
			return r, err
		}
		_, err = v.awaitPhase(ctx, coordinator.PhaseOpen)
	case orderStopRun:
		if err := v.admin.Ask(ctx, coordinator.AskStopRun, nil, nil); err != nil {
			return r, err
		}
		status, err := v.awaitPhase(ctx, coordinator.PhaseComplete)
		if err != nil {
			return r, err
		}
		r.Trains = status.Trains
	default:
		err = fmt.Errorf("unknown order %q", o.Do)
	}
	return r, err
}

// patience is how long a run may take from one phase to the next.
const patience = time.Minute

// repeatUntil sends a request again and again, and decodes each answer into result, until the
// function enough returns true.
func (v *server) repeatUntil(
	ctx context.Context, what string, result any, enough func() (bool, error),
) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if err := v.admin.Ask(ctx, what, nil, result); err != nil {
			return err
		}
		if done, err := enough(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// awaitPhase waits until the run has reached a phase.
func (v *server) awaitPhase(
	ctx context.Context, p coordinator.Phase,
) (status coordinator.RunStatus, err error) {
	err = v.repeatUntil(ctx, coordinator.AskRun, &status, func() (bool, error) {
		if status.Problem != "" {
			return false, errors.New(status.Problem)
		}
		return status.Phase == p, nil
	})
	if err != nil {
		err = fmt.Errorf("wait until the run is %s: it is %s: %w", p, status.Phase, err)
	}
	return status, err
}
