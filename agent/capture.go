package agent

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrNoCapture is returned if this agent cannot capture messages.
var ErrNoCapture = errors.New("no capture")

// Capture is a running capture of the messages that programs exchange: see package
// blackbox/capture.
type Capture interface {
	Counts() CaptureCounts
	// Flush moves into the ring everything that the capture has seen until now. The records that
	// follow can be understood without the earlier records.
	Flush()
	Close() error
}

// CaptureCounts counts messages since the capture began.
type CaptureCounts struct {
	Messages uint64 `json:"messages,string"` // messages that were given to the ring
	Dropped  uint64 `json:"dropped,string"`  // events for which the ring had no room
	// Lost counts the messages that the capture saw but lost, by reason.
	Lost    map[string]uint64 `json:"lost,omitempty"`
	Sockets int               `json:"sockets"`

	Retransmitted uint64 `json:"retransmitted,string"` // packets that TCP sent again
	Arrived       uint64 `json:"arrived,string"`       // messages whose arrival was seen
	Woke          uint64 `json:"woke,string"`          // wake-ups of threads that were logged
	Error         string `json:"error,omitempty"`      // the last failure
}

// CaptureStatus says whether the agent captures messages.
type CaptureStatus struct {
	Running bool      `json:"running"`
	Since   time.Time `json:"since,omitzero"`
	CaptureCounts
}

// runningCapture is the agent's capture, if one runs.
type runningCapture struct {
	mu      sync.Mutex
	running Capture // nil: none
	since   time.Time
	closed  bool // the agent ends
}

// StartCapture begins to capture messages. If a capture runs already, StartCapture does nothing.
func (a *Agent) StartCapture() error {
	c := &a.capture
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.running != nil:
		return nil
	case a.c.Capture == nil || c.closed:
		return fmt.Errorf("start capture: %w: this agent may not: start cp-agent as root, with "+
			"capture ready or on", ErrNoCapture)
	}
	running, err := a.c.Capture(a.c.Rings)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoCapture, err)
	}
	c.running, c.since = running, time.Now()
	return nil
}

// StopCapture ends the capture, if one runs. Everything that the capture saw is then in the ring.
func (a *Agent) StopCapture() error {
	c := &a.capture
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return nil
	}
	err := c.running.Close()
	c.running = nil
	return err
}

// endCapture ends the capture for ever.
func (a *Agent) endCapture() error {
	err := a.StopCapture()
	a.capture.mu.Lock()
	a.capture.closed = true
	a.capture.mu.Unlock()
	return err
}

// flushCapture moves everything that the capture has seen until now into the capture's ring.
func (a *Agent) flushCapture() {
	c := &a.capture
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running != nil {
		c.running.Flush()
	}
}

// CaptureStatus says whether the agent captures messages.
func (a *Agent) CaptureStatus() CaptureStatus {
	c := &a.capture
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return CaptureStatus{}
	}
	return CaptureStatus{true, c.since, c.running.Counts()}
}
