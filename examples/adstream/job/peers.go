package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// peers is a process's view of the nodes of other processes. Processes ask each other for their
// state. So a job that fails on one node fails on all, and no server stops while other processes
// need it.
type peers struct {
	runner *runner
	state  atomic.Pointer[string] // what this process answers
	asking sync.WaitGroup
	parted chan struct{} // closed when this process stops asking
	others []*peer       // the nodes of other processes
	cancel context.CancelCauseFunc
}

type peer struct {
	node    string
	unasked chan struct{}             // closed when nobody asks the peer any more
	lost    bool                      // the peer stopped answering; read only once gone is closed
	heard   atomic.Pointer[time.Time] // time of the peer's last answer; nil before the first
}

// heardSince reports whether the peer has answered since the moment t. It also returns true if this
// process no longer asks the peer, and the peer's silence was not the cause. In both cases, the
// peer is not to blame.
func (o *peer) heardSince(t time.Time) bool {
	select {
	case <-o.unasked:
		return !o.lost
	default:
		heard := o.heard.Load()
		return heard != nil && heard.After(t)
	}
}

const (
	stateRunning = "running"
	stateDone    = "done"
	stateFailed  = "failed: " // the reason follows

	askEvery = 200 * time.Millisecond
	startFor = time.Minute     // how long to wait for a node's first answer
	lostFor  = 5 * time.Second // how long to wait for each answer after that
	blameFor = time.Second     // how long to wait for an answer once the job has failed here
)

var errPeer = errors.New("another node's part of the job failed")

func (j *runner) stateOf(node string) string { return j.name + ".state." + node }

// watchPeers answers requests for the state of this process's nodes, and asks all other nodes for
// their state. It calls the function cancel when another node has failed or is lost.
func (j *runner) watchPeers(ctx context.Context, cancel context.CancelCauseFunc) (*peers, error) {
	p := &peers{runner: j, parted: make(chan struct{}), cancel: cancel}
	running := stateRunning
	p.state.Store(&running)
	own := map[string]bool{}
	for i, n := range j.cluster.nodes {
		own[n.Name] = true
		answer := func(m *nats.Msg) { m.Respond([]byte(*p.state.Load())) }
		if _, err := j.conns[i].Subscribe(j.stateOf(n.Name), answer); err != nil {
			return nil, fmt.Errorf("answer other nodes: %w", err)
		}
	}
	for _, n := range j.Nodes {
		if !own[n.Name] {
			o := &peer{node: n.Name, unasked: make(chan struct{})}
			p.others = append(p.others, o)
			p.asking.Go(func() {
				defer close(o.unasked)
				p.watch(o)
			})
		}
	}
	return p, nil
}

// watch asks one node for its state again and again, until that node has ended or is lost, or this
// process has ended.
func (p *peers) watch(o *peer) {
	last, patience := time.Now(), startFor
	for {
		ctx, cancel := context.WithTimeout(context.Background(), askEvery)
		m, err := p.runner.conns[0].RequestWithContext(ctx, p.runner.stateOf(o.node), nil)
		cancel()
		switch {
		case err == nil && string(m.Data) == stateDone:
			return
		case err == nil && strings.HasPrefix(string(m.Data), stateFailed):
			why := strings.TrimPrefix(string(m.Data), stateFailed)
			p.cancel(fmt.Errorf("%w: node %s: %s", errPeer, o.node, why))
			return
		case err == nil:
			now := time.Now()
			last, patience = now, lostFor
			o.heard.Store(&now)
		case time.Since(last) > patience:
			o.lost = true // if the job has already failed here, its error will name the node
			p.cancel(fmt.Errorf("%w: node %s has not answered for %s", errPeer, o.node, patience))
			return
		}
		select {
		case <-p.parted:
			return
		case <-time.After(askEvery):
		}
	}
}

// announceEnd announces that this process has ended, either well or because ctx ended. If all is
// well, it waits until the other processes have ended. Then it gives them time to ask for the
// announcement. It returns why the job failed, here or elsewhere.
func (p *peers) announceEnd(ctx context.Context) error {
	say := func(state string) { p.state.Store(&state) }
	if ctx.Err() == nil {
		say(stateDone)
		for _, o := range p.others {
			select {
			case <-o.unasked:
			case <-ctx.Done():
			}
		}
	}
	err := context.Cause(ctx)
	if err != nil && !errors.Is(err, errPeer) {
		err = p.addSilent(err)
	}
	if err != nil {
		say(stateFailed + err.Error())
	}
	close(p.parted)
	p.asking.Wait()
	if len(p.others) > 0 {
		time.Sleep(3 * askEvery) // so that each process asks once more
	}
	return err
}

// addSilent adds to an error the nodes that do not answer. The loss of a node is often first
// noticed as a failed request, whose error does not name the node.
func (p *peers) addSilent(err error) error {
	failed := time.Now()
	for _, o := range p.others {
		for !o.heardSince(failed) && time.Since(failed) < blameFor {
			time.Sleep(askEvery / 10)
		}
		if !o.heardSince(failed) {
			err = fmt.Errorf("%w (node %s does not answer)", err, o.node)
		}
	}
	return err
}
