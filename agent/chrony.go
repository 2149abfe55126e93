package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ntp"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// ChronyStatus has the last claim of chrony: what chrony estimates as the clock's error.
type ChronyStatus struct {
	At       time.Time `json:"at,omitzero"` // the time of the last answer
	Bound_ns uint64    `json:"bound_ns,string"`
	Bounded  bool      `json:"bounded"` // true if chrony follows a source and claims Bound_ns
	Claim    ntp.Claim `json:"-"`
	Error    string    `json:"error,omitempty"` // why chrony did not answer the last request
}

// claimsHeld is the number of claims that the agent gathers before it writes them to disk. A killed
// agent loses up to this many claims. It loses more if it could not write earlier claims. That is
// acceptable, because the claims are only a baseline for comparison.
const claimsHeld = 10

// chronyPoller asks chrony for its claims, and writes them to the run's baseline file.
type chronyPoller struct {
	address string
	node    string
	epoch   func() string // returns the epoch of the counter
	notify  func(error)
	ask     func(context.Context, string) (ntp.Claim, error)
	changed chan struct{} // receives a value when a run is opened

	mu     sync.Mutex // protects the fields below it
	status ChronyStatus
	writer *logstore.Writer
	next   uint64
	id     logstore.Incarnation
	rows   []logstore.NTP
	failed bool // true if the poller could not write the last claims, and has reported that
}

func newPoller(address, node string, epoch func() string, notify func(error)) *chronyPoller {
	return &chronyPoller{
		address: address, node: node, epoch: epoch, notify: notify, ask: ntp.Ask,
		changed: make(chan struct{}, 1),
	}
}

// run asks chrony until the context ends: often during a run, and rarely between runs.
func (p *chronyPoller) run(ctx context.Context) {
	if p.address == ChronyOff {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		case <-timer.C:
		}
		p.poll(ctx)
		p.mu.Lock()
		period := claimPatient
		if p.writer != nil {
			period = claimPeriod
		}
		p.mu.Unlock()
		timer.Reset(period)
	}
}

// poll asks chrony once.
func (p *chronyPoller) poll(ctx context.Context) {
	before := asm.Counter()
	claim, err := p.ask(ctx, p.address)
	after := asm.Counter()
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.status.Error, p.status.Bounded = err.Error(), false
		return
	}
	p.status = ChronyStatus{At: time.Now(), Claim: claim}
	p.status.Bound_ns, p.status.Bounded = claim.Bound_ns()
	if p.writer == nil {
		return
	}
	if p.epoch() != p.writer.Header().Epoch {
		// These readings are of a different epoch than the readings in the file, so they do not
		// belong in that file.
		return
	}
	p.rows = append(p.rows, logstore.NTP{
		CounterLo: before, CounterHi: after, Offset_ns: claim.Offset_ns,
		RootDelay_ns: claim.RootDelay_ns, RootDispersion_ns: claim.RootDispersion_ns,
		Frequency_ppt: claim.Frequency_ppt, Skew_ppt: claim.Skew_ppt, Stratum: claim.Stratum,
		Leap: uint64(claim.Leap), ReferenceID: claim.ReferenceID,
	})
	if len(p.rows) >= claimsHeld {
		err := p.writeClaims()
		if err != nil && !p.failed {
			p.notify(err)
		}
		p.failed = err != nil
	}
}

// writeClaims writes the gathered claims. The caller has locked p.mu.
func (p *chronyPoller) writeClaims() error {
	if len(p.rows) == 0 {
		return nil
	}
	if err := p.writer.Append(
		&logstore.Block{Incarnation: p.id, First: p.next, NTPs: p.rows}); err != nil {
		if len(p.rows) > 100*claimsHeld { // the disk has been full for a long time
			p.rows = p.rows[:0]
		}
		return fmt.Errorf("keep what chrony claims: %w", err)
	}
	p.next += uint64(len(p.rows))
	p.rows = p.rows[:0]
	return nil
}

// open begins the baseline file of a run, or continues it. If that fails, the run continues without
// this file, because the file is only for comparison.
func (p *chronyPoller) open(path string) {
	if p.address == ChronyOff {
		return
	}
	if err := p.tryOpen(path); err != nil {
		p.notify(fmt.Errorf("keep what chrony claims: %w", err))
		return
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *chronyPoller) tryOpen(path string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	w, err := logstore.Resume(logstore.OS{}, path)
	if err == nil {
		p.id = w.Header().Incarnation
	} else if errors.Is(err, fs.ErrNotExist) {
		name, nameErr := channel.ParseName("ntp/claim")
		if nameErr != nil {
			return nameErr
		}
		rand.Read(p.id[:])
		now := ring.Now()
		w, err = logstore.Create(nil, path, logstore.Header{
			Node: p.node, NodeNumber: channel.MaxNode + 1,
			Epoch: p.epoch(), Channel: name,
			Settings: channel.Settings{Kind: channel.Identity}, Incarnation: p.id,
			ProcessID: os.Getpid(),
			Counter:   now.Counter, UTCLo_ns: now.Earliest.UnixNano(),
			UTCHi_ns: now.Latest.UnixNano(),
		})
	}
	if err != nil {
		return err
	}
	p.writer, p.next, p.rows = w, w.Next(logstore.NTPs, 0), p.rows[:0]
	return nil
}

// closeBaseline ends the baseline file of the run.
func (p *chronyPoller) closeBaseline() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writer == nil {
		return nil
	}
	err := errors.Join(p.writeClaims(), p.writer.Seal(), p.writer.Close())
	p.writer = nil
	return err
}

// leaveBaseline writes the gathered claims, and leaves the file for the next agent.
func (p *chronyPoller) leaveBaseline() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writer == nil {
		return nil
	}
	err := errors.Join(p.writeClaims(), p.writer.Close())
	p.writer = nil
	return err
}

// Status returns the present status.
func (p *chronyPoller) Status() ChronyStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}
