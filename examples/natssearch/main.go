package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cloudprofiler/cloudprofiler/generator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	asJSON := flag.Bool("json", false, "print one JSON object")
	trial := flag.Duration("trial", 5*time.Second, "how `long` a trial is")
	memory := flag.Bool("memory", false, "keep the stream in memory, not in a file")
	flag.Parse()
	err := run(ctx, *trial, *memory, *asJSON)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "natssearch: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, trial time.Duration, memory, asJSON bool) error {
	b, err := startBroker(ctx, memory)
	if err != nil {
		return fmt.Errorf("start the broker: %w", err)
	}
	defer b.stop()
	tuples, err := generator.Advertisements(10_000, 265, 1)
	if err != nil {
		return err
	}
	search, err := generator.NewSearch(generator.SearchOptions{
		Connect: func(int) (generator.Sink, error) { return generator.SinkFunc(b.publish), nil },
		Tuples:  tuples, Start: 5000, Trial: trial, Batch: 64,
		Progress: func(phase string, rate float64, n int) {
			fmt.Fprintf(os.Stderr, "trial %d, %s: %.0f tuples a second\n", n+1, phase, rate)
		},
	})
	if err != nil {
		return err
	}
	consuming, err := b.consume(ctx, search.Done)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	defer consuming.Stop()
	r, err := search.Run(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	return r.WriteText(os.Stdout)
}

// A broker is the engine: a JetStream server, and the connections of a producer and a consumer.
type broker struct {
	server    *server.Server
	dir       string
	producer  *nats.Conn
	consumer  *nats.Conn
	publisher jetstream.JetStream
	stream    jetstream.Stream
}

// maxPending is the largest number of messages that may wait for the server's acknowledgement. If
// so many wait, the sink takes no tuples.
const maxPending = 1000

func startBroker(ctx context.Context, memory bool) (_ *broker, err error) {
	b := &broker{}
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	if b.dir, err = os.MkdirTemp("", "natssearch"); err != nil {
		return nil, err
	}
	b.server, err = server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: b.dir,
		NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, err
	}
	b.server.Start()
	if !b.server.ReadyForConnections(10 * time.Second) {
		return nil, fmt.Errorf("the server was not ready within 10 s")
	}
	if b.producer, err = nats.Connect(b.server.ClientURL()); err != nil {
		return nil, err
	}
	if b.consumer, err = nats.Connect(b.server.ClientURL()); err != nil {
		return nil, err
	}
	pending := jetstream.WithPublishAsyncMaxPending(2 * maxPending)
	if b.publisher, err = jetstream.New(b.producer, pending); err != nil {
		return nil, err
	}
	storage := jetstream.FileStorage
	if memory {
		storage = jetstream.MemoryStorage
	}
	b.stream, err = b.publisher.CreateStream(ctx, jetstream.StreamConfig{
		Name: "tuples", Subjects: []string{"tuples"}, Storage: storage,
		// A search may send more tuples than fit on the disk, so the stream discards old ones.
		MaxMsgs: 200_000, Discard: jetstream.DiscardOld,
	})
	return b, err
}

// publish is the sink. It takes no tuple while maxPending tuples wait for their acknowledgement.
func (b *broker) publish(tuples []generator.Tuple) (taken int, err error) {
	for _, t := range tuples {
		if b.publisher.PublishAsyncPending() >= maxPending {
			return taken, nil
		}
		message := make([]byte, 0, 8+len(t.Body)) // the client keeps it until the server has it
		message = append(binary.LittleEndian.AppendUint64(message, t.ID), t.Body...)
		if _, err := b.publisher.PublishAsync("tuples", message); err != nil {
			return taken, fmt.Errorf("publish tuple %d: %w", t.ID, err)
		}
		taken++
	}
	return taken, nil
}

// consume calls the function done for every tuple that the stream delivers.
func (b *broker) consume(
	ctx context.Context, done func(ids ...uint64),
) (jetstream.ConsumeContext, error) {
	js, err := jetstream.New(b.consumer)
	if err != nil {
		return nil, err
	}
	c, err := js.CreateConsumer(ctx, "tuples", jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
	})
	if err != nil {
		return nil, err
	}
	return c.Consume(func(m jetstream.Msg) {
		if len(m.Data()) >= 8 {
			done(binary.LittleEndian.Uint64(m.Data()))
		}
	}, jetstream.PullMaxMessages(5000))
}

func (b *broker) stop() {
	for _, c := range []*nats.Conn{b.producer, b.consumer} {
		if c != nil {
			c.Close()
		}
	}
	if b.server != nil {
		b.server.Shutdown()
		b.server.WaitForShutdown()
	}
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
}
