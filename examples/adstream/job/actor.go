package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/cloudprofiler/cloudprofiler/returntrip"
)

// operator is the work of one instance. Only the goroutine of the instance's actor calls it.
type operator interface {
	// prepare is called once, before the first tuple.
	prepare(ctx context.Context) error

	// The method work processes one tuple. It returns the tuple for the next operator, or nil, and
	// the key that chooses an instance of that operator. The caller uses only the id and the fields
	// of the returned tuple, and only until the next call.
	work(ctx context.Context, in *message) (out *message, key uint64, err error)

	// advance is called with a watermark when no tuple with an earlier event time can arrive any
	// more. It may emit tuples.
	advance(watermark_us int64, emit func(out *message, key uint64) error) error
}

// An actor runs one instance of an operator other than source.
type actor struct {
	stage    string
	instance int
	conn     *nats.Conn
	receiver *receiver
	sender   *sender // nil for the last operator
	channels *channels
	probes   probes
	switched switchSide
	arrived  *returntrip.End // nil without return trips
	operator operator
	counts   Counts
}

// run works until all senders have ended.
func (a *actor) run(ctx context.Context) error {
	if err := a.operator.prepare(ctx); err != nil {
		return a.failed(err)
	}
	if a.sender != nil {
		if err := a.sender.awaitReceivers(ctx); err != nil {
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
		a.switched.followSwitch(&a.probes)
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
		a.awaitTrips(ctx)
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
		if err := a.receiver.noteEnd(in); err != nil {
			return err
		}
	case kindTuple:
		a.arrived.Log(in.id)

		// This is an operator's instrumentation: two calls around its work.
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
		if err := a.receiver.countTaken(in); err != nil {
			return err
		}
	}
	if a.receiver.advance(in) {
		emit := func(out *message, key uint64) error { return a.emit(ctx, out, key) }
		return a.operator.advance(a.receiver.watermark, emit)
	}
	return nil
}

func (a *actor) emit(ctx context.Context, out *message, key uint64) error {
	a.counts.Sent++
	m := &message{kindTuple, a.instance, a.receiver.watermark, out.id, out.fields}
	return a.sender.send(ctx, m, key)
}

// awaitTrips waits for the last return trips (see package returntrip), which are still on their
// way.
func (a *actor) awaitTrips(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	_ = a.arrived.Settle(ctx) // an error means that packets were lost, which the counts show
}

func (a *actor) close() error {
	if a.conn != nil {
		a.conn.Close()
	}
	return errors.Join(a.arrived.Close(), a.channels.close())
}
