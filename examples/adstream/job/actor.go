package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/cloudprofiler/cloudprofiler/returntrip"
)

// operator is what an actor of a stage does. It belongs to the actor's goroutine.
type operator interface {
	// prepare is called once, before any tuple.
	prepare(ctx context.Context) error

	// work does the work on one tuple. It returns what goes on to the next stage and the key that chooses an instance there; nil: nothing
	// does. Of what it returns, id and fields count, until the next call.
	work(ctx context.Context, in *message) (out *message, key uint64, err error)

	// advance is called when no earlier event time than the watermark will come any more, and may emit tuples.
	advance(watermark_us int64, emit func(out *message, key uint64) error) error
}

// actor is one instance of a stage but the source.
type actor struct {
	stage    string
	instance int
	conn     *nats.Conn
	receiver *receiver
	sender   *sender // nil: the last stage
	channels *channels
	probes   probes
	switched switched
	arrived  *returntrip.End // nil: none
	operator operator
	counts   Counts
}

// run works until all senders have ended.
func (a *actor) run(ctx context.Context) error {
	if err := a.operator.prepare(ctx); err != nil {
		return a.failed(err)
	}
	if a.sender != nil {
		if err := a.sender.greet(ctx); err != nil {
			return a.failed(err)
		}
	}
	var in message
	for a.receiver.open > 0 {
		var m *nats.Msg
		select {
		case m = <-a.receiver.in:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		a.switched.follow(&a.probes)
		if err := in.parse(m.Data); err != nil {
			return a.failed(err)
		}
		if in.from >= len(a.receiver.senders) {
			return a.failed(fmt.Errorf("sender %d: there are %d", in.from, len(a.receiver.senders)))
		}
		if err := a.take(ctx, m, &in); err != nil {
			return a.failed(err)
		}
	}
	if a.arrived != nil {
		a.settle(ctx)
	}
	a.probes.poison()
	if a.sender != nil {
		if err := a.sender.end(); err != nil {
			return a.failed(err)
		}
	}
	return nil
}

func (a *actor) failed(err error) error { return fmt.Errorf("%s#%d: %w", a.stage, a.instance, err) }

func (a *actor) take(ctx context.Context, m *nats.Msg, in *message) error {
	switch in.kind {
	case kindHello:
		return m.Respond(nil)
	case kindPoison:
		if err := a.receiver.ended(in); err != nil {
			return err
		}
	case kindTuple:
		a.arrived.Log(in.id)

		// The instrumentation of an actor: two calls around its work.
		a.probes.start.Log(in.id)
		out, key, err := a.operator.work(ctx, in)
		a.probes.end.Log(in.id)

		a.counts.Taken++
		if err != nil {
			return fmt.Errorf("tuple %d: %w", in.id, err)
		}
		if out != nil {
			if err := a.emit(ctx, out, key); err != nil {
				return err
			}
		}
		if err := a.receiver.taken(in); err != nil {
			return err
		}
	}
	if a.receiver.advance(in) {
		return a.operator.advance(a.receiver.watermark, func(out *message, key uint64) error { return a.emit(ctx, out, key) })
	}
	return nil
}

func (a *actor) emit(ctx context.Context, out *message, key uint64) error {
	a.counts.Sent++
	return a.sender.send(ctx, &message{kindTuple, a.instance, a.receiver.watermark, out.id, out.fields}, key)
}

// settle waits for the echoes that are on their way. Where a packet was lost, they do not all come.
func (a *actor) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	_ = a.arrived.Settle(ctx) // lost packets are what the baseline has to live with: they are in its counts
}

// close gives back what the actor holds.
func (a *actor) close() error {
	if a.conn != nil {
		a.conn.Close()
	}
	return errors.Join(a.arrived.Close(), a.channels.close())
}
