package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/internal/capturing"
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
	cmd.Flags().String("capture-only", "", "capture only messages to which this applies, such as "+
		"\"program=nginx port=443\" (default: all)")
	cmd.Flags().String("capture-also", "", "capture more than messages: \"arrivals\" (when the "+
		"kernel had them ready), \"calls\" (and how long the receiver then did something else), "+
		"\"threads\" (which thread wakes which), or several of them")
	cmd.Flags().Bool("capture-light", false, "capture at less cost, with less exact times")
}

func checkCapture(c config) (err error) {
	switch c.Capture {
	case captureOff, captureReady, captureOn:
	default:
		err = fmt.Errorf("capture %q: use %s, %s or %s", c.Capture, captureOff, captureReady,
			captureOn)
	}
	if onlyErr := capturing.CheckFilter(c.CaptureOnly); onlyErr != nil {
		err = errors.Join(err, fmt.Errorf("capture_only: %w", onlyErr))
	}
	if alsoErr := capturing.CheckAlso(c.CaptureAlso); alsoErr != nil {
		err = errors.Join(err, fmt.Errorf("capture_also: %w", alsoErr))
	}
	return err
}

// wantsRights reports whether the agent keeps the rights to capture.
func (c config) wantsRights() bool { return c.Capture != captureOff }

// capturer returns a function that starts a capture, or nil if the configuration does not allow
// captures.
func (c config) capturer(notify func(error)) func(rings string) (agent.Capture, error) {
	if !c.wantsRights() {
		return nil
	}
	return capturing.Starter(c.CaptureOnly, c.CaptureAlso, c.CaptureLight, notify)
}
