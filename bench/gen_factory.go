package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/cloudprofiler/cloudprofiler/generator"
)

// decodedTuple is what the factory's tuples decode to.
type decodedTuple struct {
	User  string `json:"user_id"`
	Page  string `json:"page_id"`
	Ad    string `json:"ad_id"`
	Kind  string `json:"ad_type"`
	Event string `json:"event_type"`
	IP    string `json:"ip"`
	Pad   string `json:"pad"`
}

// measureFactory sends the same tuples over ZeroMQ twice. In the first run the consumer decodes the
// tuples itself. In the second run it takes decoded objects from the factory. The base is the
// processor time that the consumer's thread spends on decoding a tuple in the first run, without
// the time for receiving it. The figure is all of the thread's processor time for a tuple in the
// second run, divided by the base.
func measureFactory(ctx context.Context, r *GenRow, tuples int) error {
	n := tuples / 8 // decoding is the slow part
	inline, received, err := decodeInline(ctx, n)
	if err != nil {
		return err
	}
	r.Wrong += received.wrong()
	taken, received, err := decodeInFactory(ctx, n)
	if err != nil {
		return err
	}
	r.Wrong += received.wrong()
	r.Figures = append(r.Figures, taken/inline)
	r.Base = append(r.Base, inline)
	r.Rates = append(r.Rates, received.received.Rate)
	return nil
}

var decode = generator.JSON[decodedTuple]()

// countClick returns 1 if the event is a click, and 0 if not. The consumers add this up, so that
// they read each decoded object.
func countClick(a *decodedTuple) int {
	if a.Event == "click" {
		return 1
	}
	return 0
}

func decodeInline(ctx context.Context, n int) (ns float64, run genRun, err error) {
	var spent time.Duration
	var failed error
	objects, found := 0, 0
	run, err = overZeroMQTo(ctx, n,
		func(o generator.ReceiverOptions) (tupleReceiver, error) {
			o.Handle = func(_ int, b *generator.Bucket) {
				runtime.LockOSThread() // the connection's goroutine ends with the run
				before, err := threadTime()
				failed = errors.Join(failed, err)
				for _, t := range b.Tuples {
					a, err := decode(t.Body)
					if err == nil {
						objects++
						found += countClick(&a)
					}
				}
				after, err := threadTime()
				failed = errors.Join(failed, err)
				spent += after - before
				runtime.UnlockOSThread()
			}
			return checkOnly(o)
		})
	if err == nil {
		err = failed
	}
	if err == nil && (objects != n || found == 0) {
		err = fmt.Errorf("decode inline: %d of %d tuples decoded, %d clicks", objects, n, found)
	}
	return float64(spent) / float64(n), run, err
}

func decodeInFactory(ctx context.Context, n int) (ns float64, run genRun, err error) {
	consumed := make(chan error, 1)
	var spent time.Duration
	run, err = overZeroMQTo(ctx, n,
		func(o generator.ReceiverOptions) (tupleReceiver, error) {
			f, err := generator.NewFactory(
				generator.FactoryOptions[decodedTuple]{Receiver: o, Decode: decode})
			if err != nil {
				return nil, err
			}
			go func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				defer close(consumed)
				before, err := threadTime()
				objects, found := 0, 0
				for consumer := f.Consumer(0); ; objects++ {
					object, ok := consumer.Next()
					if !ok {
						break
					}
					found += countClick(&object.Value)
				}
				after, failed := threadTime()
				spent = after - before
				if err = errors.Join(err, failed); err != nil {
					consumed <- err
				} else if objects != n || found == 0 {
					consumed <- fmt.Errorf("take from the factory: %d of %d objects, %d clicks",
						objects, n, found)
				}
			}()
			return func(ctx context.Context) (generator.ReceiverResult, error) {
				r, err := f.Run(ctx)
				return r.ReceiverResult, err
			}, nil
		})
	if err != nil {
		return 0, run, err
	}
	err = <-consumed
	return float64(spent) / float64(n), run, err
}

// overZeroMQTo sends n tuples flat out to the receiver that newReceiver makes.
func overZeroMQTo(ctx context.Context, n int,
	newReceiver func(generator.ReceiverOptions) (tupleReceiver, error)) (genRun, error) {
	o := generator.SenderOptions{FlatOut: time.Minute, Limit: uint64(n), Batch: 64}
	return sendConnected(ctx, o, generator.PushOptions{Batch: 64, HighWater: 20}, newReceiver)
}
