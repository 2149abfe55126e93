package control

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Watch orders a node to send Samples for a while. The node does not answer the order itself. While
// somebody watches, the server repeats the order.
type Watch struct {
	Order  uint64 `json:"order,string"` // the server's number of this order
	For_ns int64  `json:"for_ns"`       // how long the node sends Samples; 0: the node stops
	Events int    `json:"events"`       // most sampled events that the node sends in a second
}

// Sample is what a node's channels logged since the node's previous Sample: exact counts, and a
// sample of the events. All nodes sample the same tuples, because a hash of a tuple's id decides
// whether the tuple is sampled (channel.SampleDepth).
type Sample struct {
	Stream string `json:"stream"`        // random; a new one whenever the node begins to send
	Number uint64 `json:"number,string"` // counted from 1 in each stream; a gap is a lost Sample

	// Order is the number of the newest Watch that the node has received. Since_ns is the time from
	// the arrival of that Watch to the reading Until_cycles. It is negative if Until_cycles was
	// read before the Watch arrived.
	Order    uint64 `json:"order,string"`
	Since_ns int64  `json:"since_ns"`

	// These are readings of the node's counter in this epoch: when the stream began, and when this
	// Sample was made. Until_cycles says how far the Sample is complete: everything that was logged
	// from Began_cycles to Until_cycles is in this Sample or in an earlier one.
	Epoch        string `json:"epoch"`
	Began_cycles uint64 `json:"began_cycles,string"`
	Until_cycles uint64 `json:"until_cycles,string"`
	Made_cycles  uint64 `json:"made_cycles,string"`

	Bits     int              `json:"bits"`           // the least SampleDepth of sampled ids
	Lost     uint64           `json:"lost,string"`    // sampled events that found no room
	Left     int              `json:"left,omitempty"` // channels that found no room
	Channels []SampledChannel `json:"channels"`
}

// SampledChannel is what one channel logged, as a part of a Sample.
type SampledChannel struct {
	Name         string         `json:"name"`
	Handler      string         `json:"handler"`             // the handler with its parameters
	Keeps        string         `json:"keeps"`               // KeepsAll, KeepsSome or KeepsNone
	Slack_cycles uint64         `json:"slack_cycles,string"` // by how much a stamp may be wrong
	Events       uint64         `json:"events,string"`       // exact number of logged events
	Dropped      uint64         `json:"dropped,string"`      // events that the program dropped
	Sampled      []SampledEvent `json:"-"`
}

// SampledEvent is one event of a sample.
type SampledEvent struct{ ID, Reading uint64 }

// These are the values of SampledChannel.Keeps. They say which of its events a channel keeps.
const (
	KeepsAll  = "all"
	KeepsSome = "some" // the handler keeps only a part
	KeepsNone = "none" // the channel only counts events
)

// These limits keep every Sample so small that the server accepts it from any node at any time.
const (
	MaxSampled         = 4096
	MaxSampledChannels = 256
	MaxSampleBits      = 48
)

func (*Watch) Kind() Kind  { return KindWatch }
func (*Sample) Kind() Kind { return KindSample }

func (m *Watch) check() error {
	if m.Events < 0 || m.Events > 1_000_000 {
		return fmt.Errorf("%d events a second, not 0 to 1000000", m.Events)
	}
	return checkTime("for_ns", m.For_ns)
}

func (m *Sample) check() error {
	switch {
	case m.Number == 0:
		return errors.New("number is 0: samples are counted from 1")
	case m.Bits < 0 || m.Bits > MaxSampleBits:
		return fmt.Errorf("%d bits, not 0 to %d", m.Bits, MaxSampleBits)
	case len(m.Channels) > MaxSampledChannels || m.Left < 0:
		return fmt.Errorf("%d channels, more than %d, and %d left out", len(m.Channels),
			MaxSampledChannels, m.Left)
	case m.Since_ns < -int64(maxTime) || m.Since_ns > int64(maxTime):
		return fmt.Errorf("since_ns is %d, not within a day", m.Since_ns)
	}
	events := 0
	for _, c := range m.Channels {
		switch c.Keeps {
		case KeepsAll, KeepsSome, KeepsNone:
		default:
			return fmt.Errorf("channel %q keeps %q, not all, some or none", c.Name, c.Keeps)
		}
		if c.Slack_cycles > 1<<32 {
			return fmt.Errorf("slack of %d cycles, more than 2^32", c.Slack_cycles)
		}
		if err := first(checkLine("channel", c.Name), checkLine("handler", c.Handler)); err != nil {
			return err
		}
		events += len(c.Sampled)
	}
	if events > MaxSampled {
		return fmt.Errorf("%d events, more than %d", events, MaxSampled)
	}
	return first(checkName("stream", m.Stream), checkLine("epoch", m.Epoch))
}

func (m *Sample) bulk() []byte { return EncodeSampled(m.Channels) }

func (m *Sample) setBulk(b []byte) error { return DecodeSampled(b, m.Channels) }

// EncodeSampled encodes the sampled events of channels. The result is the third frame of a Sample.
func EncodeSampled(channels []SampledChannel) []byte {
	var b []byte
	for _, c := range channels {
		b = binary.AppendUvarint(b, uint64(len(c.Sampled)))
		last := uint64(0)
		for _, e := range c.Sampled {
			b = binary.BigEndian.AppendUint64(b, e.ID)
			b = binary.AppendVarint(b, int64(e.Reading-last))
			last = e.Reading
		}
	}
	return b
}

// sampledBytes is the least number of bytes of an event in the third frame of a Sample.
const sampledBytes = 9

var errSampledEnd = errors.New("sampled events end early")

// DecodeSampled decodes the result of EncodeSampled. It puts the events into channels, which must
// have the same order as when they were encoded.
func DecodeSampled(b []byte, channels []SampledChannel) error {
	for i := range channels {
		n, length := binary.Uvarint(b)
		if length <= 0 {
			return errSampledEnd
		}
		if b = b[length:]; n > uint64(len(b)/sampledBytes) {
			return fmt.Errorf("%d sampled events in %d bytes", n, len(b))
		}
		var events []SampledEvent
		if n > 0 {
			events = make([]SampledEvent, n)
		}
		last := uint64(0)
		for j := range events {
			if len(b) < sampledBytes {
				return errSampledEnd
			}
			d, length := binary.Varint(b[8:])
			if length <= 0 {
				return errSampledEnd
			}
			last += uint64(d)
			events[j] = SampledEvent{binary.BigEndian.Uint64(b), last}
			b = b[8+length:]
		}
		channels[i].Sampled = events
	}
	if len(b) > 0 {
		return fmt.Errorf("%d bytes after the last sampled event", len(b))
	}
	return nil
}
