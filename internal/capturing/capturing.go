package capturing

import (
	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/blackbox/capture"
)

// CheckFilter returns an error if the text is not a filter: see capture.ParseFilter.
func CheckFilter(text string) error {
	_, err := capture.ParseFilter(text)
	return err
}

// CheckAlso returns an error if the text is not a valid list of what is captured in addition: see
// capture.ParseAlso.
func CheckAlso(text string) error {
	_, err := capture.ParseAlso(text)
	return err
}

// Starter returns the value of the field Capture in an agent's configuration. The first argument is
// a filter: see CheckFilter. The second argument lists what is captured in addition: see CheckAlso.
// If light is true, the moments at which calls begin are not captured: see Light in
// capture.Options. If a capture fails after it has started, it passes the error to the function
// notify.
func Starter(only, also string, light bool, notify func(error)) func(rings string) (agent.Capture,
	error) {
	return func(rings string) (agent.Capture, error) {
		filter, err := capture.ParseFilter(only)
		if err != nil {
			return nil, err
		}
		more, err := capture.ParseAlso(also)
		if err != nil {
			return nil, err
		}
		started, err := capture.Start(capture.Options{
			Dir: rings, Notify: notify, Only: filter, Also: more, Light: light,
		})
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
		Retransmitted: s.Retransmitted, Arrived: s.Arrived, Woke: s.Woke,
	}
	for reason, n := range s.Lost {
		if counts.Lost == nil {
			counts.Lost = map[string]uint64{}
		}
		counts.Lost[reason.String()] += n
	}
	return counts
}
