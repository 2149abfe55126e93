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

// peers is what a process knows of the nodes of other processes. Each asks each how it is, so that a job that fails anywhere fails
// everywhere, and no server leaves while others still need it.
type peers struct {
	runner *runner
	state  atomic.Pointer[string] // what this process answers
	asking sync.WaitGroup
	parted chan struct{} // closed when nobody is asked any more
	others []*peer       // the nodes of other processes
	cancel context.CancelCauseFunc
}

type peer struct {
	node  string
	gone  chan struct{}             // closed when it has ended or is lost, or nobody asks it any more
	lost  bool                      // it has not answered for too long; read once gone is closed
	heard atomic.Pointer[time.Time] // its last answer; nil before the first
}

// heardSince says whether the peer has answered after that, or has said before that it ended.
func (o *peer) heardSince(t time.Time) bool {
	select {
	case <-o.gone:
		return !o.lost
	default:
		heard := o.heard.Load()
		return heard != nil && heard.After(t)
	}
}

const (
	stateRunning = "running"
	stateDone    = "done"
	stateFailed  = "failed: " // and why

	askEvery = 200 * time.Millisecond
	startFor = time.Minute     // until a node answers first
	lostFor  = 5 * time.Second // without an answer after that
	blameFor = time.Second     // without an answer once the job has failed here
)

var errPeer = errors.New("another node's part of the job failed")

func (j *runner) stateOf(node string) string { return j.name + ".state." + node }

// watchPeers answers for this process's nodes and asks all others. It calls cancel where one has failed or is lost.
func (j *runner) watchPeers(ctx context.Context, cancel context.CancelCauseFunc) (*peers, error) {
	p := &peers{runner: j, parted: make(chan struct{}), cancel: cancel}
	running := stateRunning
	p.state.Store(&running)
	own := map[string]bool{}
	for i, n := range j.cluster.nodes {
		own[n.Name] = true
		_, err := j.conns[i].Subscribe(j.stateOf(n.Name), func(m *nats.Msg) { m.Respond([]byte(*p.state.Load())) })
		if err != nil {
			return nil, fmt.Errorf("answer other nodes: %w", err)
		}
	}
	for _, n := range j.Nodes {
		if !own[n.Name] {
			o := &peer{node: n.Name, gone: make(chan struct{})}
			p.others = append(p.others, o)
			p.asking.Go(func() {
				defer close(o.gone)
				p.watch(o)
			})
		}
	}
	return p, nil
}

// watch asks one node until it has ended, or nobody wants to know any more.
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
			p.cancel(fmt.Errorf("%w: node %s: %s", errPeer, o.node, strings.TrimPrefix(string(m.Data), stateFailed)))
			return
		case err == nil:
			now := time.Now()
			last, patience = now, lostFor
			o.heard.Store(&now)
		case time.Since(last) > patience:
			o.lost = true // which says so where the job has failed here meanwhile, and cancel comes too late
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

// part says that this process has ended, well or with ctx, and waits until the others know; if all is well, until they have ended as
// well. It returns why the job failed, here or elsewhere.
func (p *peers) part(ctx context.Context) error {
	say := func(state string) { p.state.Store(&state) }
	if ctx.Err() == nil {
		say(stateDone)
		for _, o := range p.others {
			select {
			case <-o.gone:
			case <-ctx.Done():
			}
		}
	}
	err := context.Cause(ctx)
	if err != nil && !errors.Is(err, errPeer) {
		err = p.blame(err)
	}
	if err != nil {
		say(stateFailed + err.Error())
	}
	close(p.parted)
	p.asking.Wait()
	if len(p.others) > 0 {
		time.Sleep(3 * askEvery) // they ask once more
	}
	return err
}

// blame adds to why the job failed here which nodes do not answer: the loss of one shows first in whatever was asked of it.
func (p *peers) blame(err error) error {
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
