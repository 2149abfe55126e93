package generator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/generator"
)

// This engine is a queue in the same program. Its sink takes tuples until the queue is full. If the
// sink takes fewer tuples than it was offered, the sender knows that there is no more room.
func ExampleSinkFunc() {
	queue := make(chan uint64, 1024) // the engine
	counted := make(chan int)
	go func() {
		n := 0
		for range queue {
			n++
		}
		counted <- n
	}()

	var tuples generator.Tuples
	for _, event := range []string{`{"user":"ada"}`, `{"user":"grace"}`} {
		if err := tuples.LoadBytes([]byte(event)); err != nil {
			log.Fatal(err)
		}
	}
	schedule, err := generator.Constant(2000, 50*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	sender, err := generator.NewSender(generator.SenderOptions{
		Schedule: schedule,
		Tuples:   &tuples,
		Connect: func(thread int) (generator.Sink, error) {
			return generator.SinkFunc(func(tuples []generator.Tuple) (taken int, err error) {
				for _, t := range tuples {
					select {
					case queue <- t.ID:
						taken++
					default:
						return taken, nil // no room: the sender asks again, and counts the time
					}
				}
				return taken, nil
			}), nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	sent, err := sender.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	close(queue)
	fmt.Println(sent.Scheduled, "due,", sent.Sent, "sent,", <-counted, "in the engine")
	// Output: 100 due, 100 sent, 100 in the engine
}

// Tuples are serialised once, before a run. Each time a tuple is sent, it gets a new id.
func ExampleTuples() {
	var tuples generator.Tuples
	for user := range 2 {
		body, err := json.Marshal(map[string]int{"user": user})
		if err != nil {
			log.Fatal(err)
		}
		if err := tuples.LoadBytes(body); err != nil {
			log.Fatal(err)
		}
	}
	message := tuples.GetBytes(nil, 1, 77) // number 1, with id 77
	fmt.Printf("%d tuples; %d bytes, the id at 4: %x, the body at 12: %s\n",
		tuples.Len(), len(message), message[4:12], message[12:])
	// Output: 2 tuples; 22 bytes, the id at 4: 4d00000000000000, the body at 12: {"user":1}
}

// This is the object factory in an engine's source. It receives tuples over ZeroMQ, and two workers
// decode them. The consumer gets the objects in the order in which their tuples were sent.
func ExampleFactory() {
	type event struct{ User int }
	pull, err := generator.NewPull("tcp://127.0.0.1:*", generator.PullOptions{})
	if err != nil {
		log.Fatal(err)
	}
	factory, err := generator.NewFactory(generator.FactoryOptions[event]{
		Receiver: generator.ReceiverOptions{Sources: []generator.Source{pull}},
		Decode:   generator.JSON[event](),
		Workers:  2,
	})
	if err != nil {
		log.Fatal(err)
	}
	var consuming sync.WaitGroup
	consuming.Go(func() {
		for consumer := factory.Consumer(0); ; {
			object, ok := consumer.Next()
			if !ok {
				return
			}
			fmt.Println("user", object.Value.User)
		}
	})
	go load(pull.Endpoint())
	result, err := factory.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	consuming.Wait()
	fmt.Println(result.Objects, "objects, every tuple once:", result.Whole())
	// Output:
	// user 0
	// user 1
	// user 2
	// 3 objects, every tuple once: true
}

// load sends three tuples at once.
func load(endpoint string) {
	var tuples generator.Tuples
	for user := range 3 {
		if err := tuples.LoadBytes(fmt.Appendf(nil, `{"user":%d}`, user)); err != nil {
			log.Fatal(err)
		}
	}
	schedule, err := generator.Burst(3, time.Second, time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	sender, err := generator.NewSender(generator.SenderOptions{
		Schedule: schedule,
		Tuples:   &tuples,
		Connect: func(int) (generator.Sink, error) {
			return generator.NewPush(context.Background(), endpoint, generator.PushOptions{})
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := sender.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// A search needs two things from an engine: a sink that takes tuples, and a call of Done for each
// tuple that comes out. Here the engine is a queue of 1,000 tuples that a server empties. The
// output depends on the machine, so it is not compared.
func ExampleSearch() {
	tuples, err := generator.Advertisements(1000, 265, 1)
	if err != nil {
		log.Fatal(err)
	}
	queue := make(chan uint64, 1000)
	search, err := generator.NewSearch(generator.SearchOptions{
		Tuples: tuples,
		Connect: func(thread int) (generator.Sink, error) {
			return generator.SinkFunc(func(tuples []generator.Tuple) (taken int, err error) {
				for _, t := range tuples {
					select {
					case queue <- t.ID:
						taken++
					default:
						return taken, nil
					}
				}
				return taken, nil
			}), nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for id := range queue {
			// … the engine's work
			search.Done(id)
		}
	}()
	result, err := search.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Answer())
}
