package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// tokenKey names a queue of leaders in the key-value store. The first leader of the queue has the
// token, and runs its simulation.
const tokenKey = "token"

// ErrBusy is returned if every attempt to change the queue fails because other leaders change it.
var ErrBusy = errors.New("the token's queue changes too often")

// changeQueue changes the queue. If another leader changes the queue at the same time, changeQueue
// tries again.
func changeQueue(kv nats.KeyValue, change func(queue []string) []string) ([]string, error) {
	for range 1000 {
		var queue []string
		revision := uint64(0)
		e, err := kv.Get(tokenKey)
		switch {
		case errors.Is(err, nats.ErrKeyNotFound):
		case err != nil:
			return nil, fmt.Errorf("read token: %w", err)
		default:
			queue, revision = strings.Fields(string(e.Value())), e.Revision()
		}
		queue = change(queue)
		value := []byte(strings.Join(queue, "\n"))
		if revision == 0 {
			_, err = kv.Create(tokenKey, value)
		} else {
			_, err = kv.Update(tokenKey, value, revision)
		}
		if err == nil {
			return queue, nil
		}
		var other *nats.APIError
		if !errors.Is(err, nats.ErrKeyExists) && !errors.As(err, &other) {
			return nil, fmt.Errorf("change token: %w", err)
		}
	}
	return nil, ErrBusy
}

// takeToken waits until the leaders that came earlier have had the token.
func takeToken(ctx context.Context, kv nats.KeyValue, name string) error {
	queue, err := changeQueue(kv, func(q []string) []string { return append(q, name) })
	if err != nil || queue[0] == name {
		return err
	}
	watch, err := kv.Watch(tokenKey, nats.Context(ctx))
	if err != nil {
		return fmt.Errorf("wait for token: %w", err)
	}
	defer watch.Stop()
	for {
		select {
		case e := <-watch.Updates():
			if e == nil {
				continue
			}
			if q := strings.Fields(string(e.Value())); len(q) > 0 && q[0] == name {
				return nil
			}
		case <-ctx.Done():
			return errors.Join(ctx.Err(), giveToken(kv, name))
		}
	}
}

// giveToken removes the leader from the queue, whether or not it has the token.
func giveToken(kv nats.KeyValue, name string) error {
	_, err := changeQueue(kv, func(q []string) []string {
		return slices.DeleteFunc(q, func(s string) bool { return s == name })
	})
	return err
}

// longestWait is how long a process waits for the server, or for a bundle of another process. No
// process computes longer than this between two bundles.
const longestWait = 2 * time.Minute

// storePatience is how long a process waits until the server has stored a checkpoint. The other
// processes wait longer for the next bundle. So if the server does not store the checkpoint, this
// process reports an error before they do.
const storePatience = longestWait / 2
