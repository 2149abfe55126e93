package main

import (
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

// capturer returns what starts a capture, or nil if the configuration does not allow one.
func (c config) capturer(notify func(error)) func(rings string) (agent.Capture, error) {
	if !c.wantsRights() {
		return nil
	}
	return capturing.Starter(notify)
}
