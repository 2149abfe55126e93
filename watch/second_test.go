package watch

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// A second client sees no false rate and no false age. The nodes may already send Samples for
// another client, or begin a stream when this client comes. The first Samples of a stream may count
// events from before the stream.
func TestPicturesOfASecondClient(t *testing.T) {
	tests := map[string]func(s *sim){
		"another client goes on": func(*sim) {},
		"another client left 30 s ago": func(s *sim) {
			s.simulateIdle(30)
			s.beginStreams(0)
		},
		"agents that are behind when they begin": func(s *sim) {
			s.simulateIdle(30)
			s.beginStreams(3)
		},
		"agents that lose a message": func(s *sim) {
			s.beginStreams(0)
			s.simulateChain(1, nil)
			for _, n := range s.nodes {
				n.number += 3
				for _, c := range n.channels {
					c.Events, c.Sampled = 7, nil
				}
			}
		},
	}
	for name, join := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "alpha", "beta", "gamma")
			s.simulateChain(3, nil)
			s.v = New(2 * time.Second)
			s.v.measured = s.checkTuple
			join(s)
			var p *Picture
			known := 0
			s.simulateChain(4, func(tick int) {
				p = s.v.Picture(s.clock())
				known = s.truePicture(p)
				if tick == 1 && known > 0 { // each node has sent one Sample
					t.Errorf("after one Sample, %d rates are known", known)
				}
			})
			if known == 0 || len(names(p)) != len(abc) {
				t.Errorf("%d rates are known, and the last picture is %+v", known, p)
			}
		})
	}
}

// simulateIdle simulates a job for some seconds while nobody watches.
func (s *sim) simulateIdle(seconds int) {
	for _, n := range s.nodes {
		n.channels[0].Events += uint64(seconds * 100_000)
	}
	s.now += uint64(seconds) * hz
}

// beginStreams makes all nodes begin a new stream. The data of the first Samples of this stream end
// where the stream begins. The parameter behind is the number of these Samples. They and the next
// one also count events from before the stream.
func (s *sim) beginStreams(behind uint64) {
	for _, n := range s.nodes {
		n.stream, n.number, n.began = n.stream+"+", 0, s.now
		n.sample = func(m *control.Sample) {
			if m.Number <= behind {
				m.Since_ns -= int64(m.Until_cycles - m.Began_cycles)
				m.Until_cycles = m.Began_cycles
			}
			if m.Number <= behind+1 {
				m.Channels[0].Events += 5000
			}
		}
	}
}

// truePicture compares the rates and the age of a picture with the truth. The picture must come
// from simulateChain. It returns the number of known rates.
func (s *sim) truePicture(p *Picture) (known int) {
	s.t.Helper()
	if _, err := json.Marshal(p); err != nil {
		s.t.Error(err)
	}
	const truth = 100 / 0.202
	rates := map[string]Rate{}
	for _, n := range p.Nodes {
		rates[n.Name] = n.Rate
	}
	for _, one := range p.Points {
		rates[one.Name] = one.Rate
	}
	for _, l := range p.Spans {
		rates[l.From+" "+l.To] = l.To_s
	}
	for name, r := range rates {
		const rounding = 1e-9
		if r.Lo > truth*(1+rounding) || r.Hi < truth*(1-rounding) {
			s.t.Errorf("FALSE: the rate of %s is %+v, and %v in truth", name, r, truth)
		}
		if r.Hi < math.MaxFloat64 {
			known++
		}
	}
	if p.Age_ns > hz {
		s.t.Errorf("the picture says %v old, and its data are of the last second",
			time.Duration(p.Age_ns))
	}
	return known
}
