package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/blackbox/capture"
)

// The values of the key capture.
const (
	captureOff   = "off"   // the agent gives up the rights to capture
	captureReady = "ready" // it captures when somebody asks for it
	captureOn    = "on"    // it captures from the start
)

func addCaptureFlag(cmd *cobra.Command) {
	cmd.Flags().String("capture", captureOff, "see the messages that programs exchange: "+
		"off, ready (for \"cprof capture start\") or on; needs root")
}

func checkCapture(value string) error {
	switch value {
	case captureOff, captureReady, captureOn:
		return nil
	}
	return fmt.Errorf("capture %q: use %s, %s or %s", value, captureOff, captureReady, captureOn)
}

// wantsRights reports whether the agent keeps the rights to capture.
func (c config) wantsRights() bool { return c.Capture != captureOff }

// running is a capture as the agent sees it.
type running struct{ *capture.Capture }

func (r running) Counts() agent.CaptureCounts {
	s := r.Stats()
	counts := agent.CaptureCounts{
		Messages: s.Messages, Dropped: s.Dropped, Sockets: s.Sockets, Error: s.Error,
	}
	for reason, n := range s.Lost {
		if counts.Lost == nil {
			counts.Lost = map[string]uint64{}
		}
		counts.Lost[reason.String()] += n
	}
	return counts
}

// capturer returns what starts a capture, or nil if the configuration does not allow one.
func (c config) capturer(notify func(error)) func(rings string) (agent.Capture, error) {
	if !c.wantsRights() {
		return nil
	}
	return func(rings string) (agent.Capture, error) {
		started, err := capture.Start(capture.Options{Dir: rings, Notify: notify})
		if err != nil {
			return nil, err
		}
		return running{started}, nil
	}
}
