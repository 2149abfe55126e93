package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// role is what a process does with its parent's orders.
type role interface {
	obey(ctx context.Context, o order) (report, error)
	close() error
}

// Process is one of the demonstration's processes: the coordinator's, a virtual node's agent's or its part of the job's. It does what its parent orders until its
// input ends, whatever it is doing then.
func Process(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parent := newLink(in, out)
	var s setup
	if err := parent.in.Decode(&s); err != nil {
		return fmt.Errorf("read setup: %w", err)
	}
	var does role
	var says ready
	switch {
	case s.Server != nil:
		does, says, err = startServer(ctx, *s.Server)
	case s.Node != nil:
		does, says, err = startNode(ctx, *s.Node)
	case s.Program != nil:
		does = program{*s.Program}
	default:
		err = errors.New("setup is of nothing")
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
	go func() { // beside what is being done, so that an end is noticed
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
			if ctx.Err() != nil { // nobody is there to be told
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
