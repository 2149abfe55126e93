package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/sim"
)

// linkLetter is a message between a client and the server.
type linkLetter struct {
	connection uint32 // of the client, counted from 1
	request    uint64
	m          control.Message
}

var errLetter = errors.New("not a message between an agent and the server")

// encodeLetter encodes a letter as the real link does, with the number of its connection.
func (l *linkLetter) encodeLetter(to []byte) ([]byte, error) {
	frames, err := control.Encode(l.m, l.request)
	if err != nil {
		return nil, err
	}
	to = binary.LittleEndian.AppendUint32(to, l.connection)
	to = append(to, byte(len(frames)))
	for _, f := range frames {
		to = append(binary.LittleEndian.AppendUint32(to, uint32(len(f))), f...)
	}
	return to, nil
}

// readLetter decodes a letter, and returns the bytes that follow.
func readLetter(from []byte) (l *linkLetter, rest []byte, err error) {
	if len(from) < 5 {
		return nil, nil, errLetter
	}
	l = &linkLetter{connection: binary.LittleEndian.Uint32(from)}
	frames := make([][]byte, from[4])
	from = from[5:]
	for i := range frames {
		if len(from) < 4 {
			return nil, nil, errLetter
		}
		n := binary.LittleEndian.Uint32(from)
		if uint64(n) > uint64(len(from)-4) {
			return nil, nil, errLetter
		}
		frames[i], from = from[4:4+n], from[4+n:]
	}
	l.m, l.request, err = control.Decode(frames)
	return l, from, err
}

// letterCodec encodes the letters that events carry.
type letterCodec struct{}

func (letterCodec) EncodeValue(to []byte, v any) ([]byte, error) {
	l, ok := v.(*linkLetter)
	if !ok {
		return nil, fmt.Errorf("encode %T: %w", v, errLetter)
	}
	return l.encodeLetter(to)
}

func (letterCodec) DecodeValue(from []byte) (any, error) {
	l, rest, err := readLetter(from)
	if err == nil && len(rest) > 0 {
		err = errLetter
	}
	return l, err
}

// orderedTransport delivers messages in the order in which they were sent, as a connection does. A
// message that gets lost is sent again.
type orderedTransport struct {
	sim.Transport
	last *sim.Time // when the previous message arrives
}

// resendAfter is the time after which a lost message is sent again.
const resendAfter = sim.Time(200 * time.Millisecond)

func (o orderedTransport) Delay(c *sim.Context, to sim.Node) (sim.Time, bool) {
	lost := sim.Time(0)
	for range 100 {
		if d, ok := o.Transport.Delay(c, to); ok {
			*o.last = max(c.Now()+lost+d, *o.last+1)
			return *o.last - c.Now(), true
		}
		lost += resendAfter
	}
	return 0, false
}

// waitTransport is a transport for events that a node posts for itself, to happen after some time.
type waitTransport sim.Time

func (w waitTransport) Delay(*sim.Context, sim.Node) (sim.Time, bool) { return sim.Time(w), true }
func (w waitTransport) Shortest() sim.Time                            { return sim.Time(w) }
