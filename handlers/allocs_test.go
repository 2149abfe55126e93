package handlers

import (
	"fmt"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// callOf returns the function that logs one event: Link on a link channel, Log on others.
func callOf(c *Channel) func(id uint64) {
	if c.links {
		return func(id uint64) { c.Link(id, id+1) }
	}
	return c.Log
}

func TestLogAllocatesNothing(t *testing.T) {
	for _, handler := range allHandlers {
		for _, writer := range allWriters {
			for _, policy := range []string{"drop", "overwrite"} {
				if writer.many && policy == "overwrite" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", handler.name, writer.name, policy),
					func(t *testing.T) {
						// The ring is small, so most calls with policy drop find it full.
						c := openTest(t, writer.many,
							Options{Handler: handler.name, Params: handler.params,
								Stamp: writer.stamp, Policy: policy, Buffer: "256"})
						log, id := callOf(c), uint64(0)
						// AllocsPerRun rounds down to whole allocations per run. So each run makes
						// enough calls that even a rare allocation happens in every run.
						if n := testing.AllocsPerRun(20, func() {
							for range 100 {
								log(id)
								id++
							}
							log(channel.Poison)
						}); n != 0 {
							t.Errorf("%v allocations in 101 calls", n)
						}
					})
			}
		}
	}
}

func TestAdoptingAllocatesOnce(t *testing.T) {
	c := openTest(t, false, Options{Handler: "id", Policy: "drop"})
	consumer, err := ring.OpenConsumer(c.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	apply := func() {
		if _, err := consumer.Apply(channel.Settings{Kind: channel.Identity}); err != nil {
			t.Fatal(err)
		}
	}
	alone := testing.AllocsPerRun(100, apply)
	both := testing.AllocsPerRun(100, func() { apply(); c.Log(1) })
	if both-alone > 1 {
		t.Errorf("%v allocations in a call that adopts settings, want 1", both-alone)
	}
	if n := testing.AllocsPerRun(100, func() { c.Log(1) }); n != 0 {
		t.Errorf("%v allocations a call after the adoption", n)
	}
}

func TestNoOpsAllocateNothing(t *testing.T) {
	closed := openTest(t, true, Options{})
	closed.Close()
	failed, _ := Open("", Options{})
	for name, c := range map[string]*Channel{"nil": nil, "failed": failed, "closed": closed} {
		if n := testing.AllocsPerRun(100, func() { c.Log(1); c.Link(1, 2) }); n != 0 {
			t.Errorf("%s: %v allocations a call", name, n)
		}
	}
}
