package capturing

import (
	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/blackbox/capture"
)

// Starter returns a value for the field Capture of an agent's configuration. Failures after the
// start of a capture are passed to notify.
func Starter(notify func(error)) func(rings string) (agent.Capture, error) {
	return func(rings string) (agent.Capture, error) {
		started, err := capture.Start(capture.Options{Dir: rings, Notify: notify})
		if err != nil {
			return nil, err
		}
		return running{started}, nil
	}
}

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
