package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// runLoad sends requests over several connections, at most perSecond in all. A connection waits for
// the answer before it sends the next request.
func runLoad(ctx context.Context, to string, connections, requests, perSecond int,
	path string) error {
	w, err := newWitness(path)
	if err != nil {
		return err
	}
	defer w.close()
	start := time.Now()
	var next atomic.Int64
	var mu sync.Mutex
	var failed error
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			if err := one(ctx, w, to, func() (string, bool) {
				n := next.Add(1)
				due := time.Duration(n) * time.Second / time.Duration(perSecond)
				time.Sleep(time.Until(start.Add(due)))
				return strconv.FormatInt(n, 10), n <= int64(requests)
			}); err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return failed
}

func one(ctx context.Context, w *witness, to string, next func() (string, bool)) error {
	dialled, err := net.Dial("tcp", to)
	if err != nil {
		return err
	}
	c := w.watch(dialled)
	defer c.Close()
	in := bufio.NewReader(c)
	for id, more := next(); more && ctx.Err() == nil; id, more = next() {
		c.request, c.asked = id, id
		fmt.Fprintf(c, "GET /%s HTTP/1.1\r\nHost: gateway\r\n\r\n", id)
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			return fmt.Errorf("request %s: %w", id, err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != id+"\n" {
			return fmt.Errorf("request %s: the answer is %q: %v", id, body, err)
		}
	}
	return nil
}
