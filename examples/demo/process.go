package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// A role carries out the orders that the parent gives to one kind of process.
type role interface {
	obey(ctx context.Context, o order) (orderReport, error)
	close() error
}

// Process runs one of the demonstration's processes: the coordinator, the agent of a virtual node,
// or a node's part of the job. It obeys its parent's orders until its input ends. The end of the
// input also stops an order that is being carried out.
func Process(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parent := newLink(in, out)
	var s setupMessage
	if err := parent.in.Decode(&s); err != nil {
		return fmt.Errorf("read setup: %w", err)
	}
	var does role
	var says readyAnswer
	switch {
	case s.Server != nil:
		does, says, err = startServer(ctx, *s.Server)
	case s.Node != nil:
		does, says, err = startNode(ctx, *s.Node)
	case s.Program != nil:
		does = jobProgram{*s.Program}
	default:
		err = errors.New("read setup: it is empty")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, does.close()) }()
	if err := parent.send(says); err != nil {
		return err
	}
	orders := make(chan order)
	ended := make(chan error, 1)
	go func() { // reads during an order too, so that the end of the input is noticed
		defer cancel()
		for {
			var o order
			if err := parent.in.Decode(&o); err != nil {
				ended <- err
				return
			}
			select {
			case orders <- o:
			case <-ctx.Done():
				ended <- io.EOF
				return
			}
		}
	}()
	for {
		select {
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read order: %w", err)
		case o := <-orders:
			r, err := does.obey(ctx, o)
			if ctx.Err() != nil { // the parent is gone
				continue
			}
			if err != nil {
				r.Error = err.Error()
			}
			if err := parent.send(r); err != nil {
				return err
			}
		}
	}
}
