package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
)

// askPairs asks for random pairs, one after the other.
func (w *watchedServer) askPairs(ctx context.Context, r *ServerResult) error {
	const questions = 1000
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var took, refused []time.Duration
	began := time.Now()
	if err := w.evaluate(ctx); err != nil {
		return err
	}
	r.Evaluated = time.Since(began)
	if err := w.askAll(ctx, r); err != nil {
		return err
	}
	for range questions {
		if err := w.askNothing(ctx, &refused); err != nil {
			return err
		}
		request := coordinator.PairRequest{From: w.nodeName(w.r.IntN(w.o.Nodes)),
			Into: w.nodeName(w.r.IntN(w.o.Nodes))}
		if request.From == request.Into {
			continue
		}
		var a coordinator.PairAnswer
		began := time.Now()
		err := w.asker.Ask(ctx, coordinator.AskPair, request, &a)
		switch {
		case errors.Is(err, control.ErrRefused):
			r.Unrelated++
		case err != nil:
			return err
		default:
			took = append(took, time.Since(began))
		}
	}
	if len(took) == 0 {
		return errors.New("no pair is related")
	}
	slices.Sort(took)
	slices.Sort(refused)
	r.Pair, r.Pair99 = took[len(took)/2], took[len(took)*99/100]
	r.Asked, r.Asked99 = refused[len(refused)/2],
		refused[len(refused)*99/100]
	return nil
}

// evaluate asks for a pair and waits up to 100 s, because the server may first have to evaluate the
// whole fleet.
func (w *watchedServer) evaluate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Second)
	defer cancel()
	return w.asker.Ask(ctx, coordinator.AskPair, coordinator.PairRequest{From: w.nodeName(0),
		Into: w.neighboursOf(0)[0]}, nil)
}

// askNothing asks a question that the server refuses at once, and notes how long the answer takes:
// the time that a busy machine and the connection need for any question.
func (w *watchedServer) askNothing(ctx context.Context, took *[]time.Duration) error {
	name := w.nodeName(0)
	began := time.Now()
	err := w.asker.Ask(ctx, coordinator.AskPair, coordinator.PairRequest{From: name, Into: name},
		nil)
	if *took = append(*took, time.Since(began)); !errors.Is(err, control.ErrRefused) {
		return fmt.Errorf("ask for a pair of one node: want a refusal, got %w", err)
	}
	return nil
}

// askAll asks the question of "cprof nodes" several times.
func (w *watchedServer) askAll(ctx context.Context, r *ServerResult) error {
	for range 5 {
		var m coordinator.Matrix
		request := coordinator.NodesRequest{ListMost: 1}
		began := time.Now()
		if err := w.asker.Ask(ctx, coordinator.AskNodes, request, &m); err != nil {
			return err
		}
		r.All = max(r.All, time.Since(began))
		if err := pause(ctx, 5*time.Second); err != nil {
			return err
		}
	}
	return nil
}
