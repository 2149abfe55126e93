package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// A link is a command's connection to the server. If the first answer is late, the link finds out
// why, and tells the user. Several goroutines may use a link once the server has answered. Until
// then, only one may.
type link struct {
	*control.Client
	server   string
	errs     io.Writer // gets a line if the user has to wait
	answered bool      // the server has answered before
}

const (
	// lookAfter is how long a link waits before it looks whether anything listens at the server's
	// address. A server listens 0.1 s after its start, so a script may start the server just before
	// the command.
	lookAfter = 500 * time.Millisecond

	// sayAfter is how long a link waits after that, before it says that the user has to wait. It is
	// also the longest time that the link looks whether anything listens.
	sayAfter = 500 * time.Millisecond
)

// Ask asks the server one question and decodes its answer into result, unless result is nil. If
// nothing listens at the server's address, Ask returns without waiting longer.
func (l *link) Ask(ctx context.Context, what string, argument, result any) error {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, control.CallLimit)
		defer cancel()
	}
	if !l.answered {
		return l.askFirst(ctx, what, argument, result)
	}
	return addAdvice(l.Client.Ask(ctx, what, argument, result))
}

func (l *link) askFirst(ctx context.Context, what string, argument, result any) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- l.Client.Ask(ctx, what, argument, result) }()
	defer func() {
		var refused *control.RefusedError // also an answer
		l.answered = err == nil || errors.As(err, &refused)
	}()
	if err, came := waitWithin(answer, lookAfter); came {
		return addAdvice(err)
	}
	absent := whyUnreachable(ctx, l.server)
	if absent != nil && !isTimeout(absent) {
		cancel()
		if <-answer == nil { // the server has answered after all
			return nil
		}
		return fmt.Errorf("reach the server at %q: %w: start tsc-server there, or name another "+
			"address with --server or $CLOUDPROFILER_SERVER", l.server, absent)
	}
	if err, came := waitWithin(answer, sayAfter); came {
		return addAdvice(err)
	}
	end, _ := ctx.Deadline()
	fmt.Fprintf(l.errs, "waiting for an answer from the server at %s, for at most %v more\n",
		l.server, time.Until(end).Round(time.Second))
	switch err = <-answer; {
	case !errors.Is(err, control.ErrUnreachable) || errors.Is(err, control.ErrKey):
		return addAdvice(err)
	case absent != nil:
		return fmt.Errorf("ask the server at %q: %w: nothing answers there: is the address right, "+
			"and does every firewall on the way let TCP through?", l.server, control.ErrUnreachable)
	}
	return fmt.Errorf("ask the server at %q: %w: something listens there: is it tsc-server, and "+
		"are --key and --server-key right?", l.server, control.ErrUnreachable)
}

// waitWithin waits for an answer. came is false if there was none in time.
func waitWithin(answer <-chan error, limit time.Duration) (err error, came bool) {
	select {
	case err := <-answer:
		return err, true
	case <-time.After(limit):
		return nil, false
	}
}

// whyUnreachable tries to connect to an address. If that fails, it returns why.
func whyUnreachable(ctx context.Context, address string) error {
	d := net.Dialer{Timeout: sayAfter}
	c, err := d.DialContext(ctx, "tcp", address)
	var number syscall.Errno
	switch {
	case errors.As(err, &number):
		return number // without the words of package net, which repeat the address
	case err != nil:
		return err
	}
	return c.Close()
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// addAdvice adds to an error of the link what the user can do.
func addAdvice(err error) error {
	switch {
	case errors.Is(err, control.ErrKey):
		return fmt.Errorf("%w: put its public half into the server's client_keys", err)
	case errors.Is(err, control.ErrUnreachable):
		return fmt.Errorf("%w: is tsc-server running there, and are the keys right?", err)
	}
	return err
}
