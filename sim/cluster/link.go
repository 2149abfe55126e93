package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// bundleLink carries bundles between the processes of a simulation. It implements sim.Exchange.
type bundleLink struct {
	ctx          context.Context
	nc           *nats.Conn
	sub          *nats.Subscription
	subject      string
	index, count int

	number uint64 // number of the exchange
	early  map[uint64][]*nats.Msg
}

// A bundle travels in pieces. The header of a piece has the number of the exchange, the sender, the
// number of the piece, and the number of pieces.
const (
	bundleHeader = 8 + 2 + 4 + 4
	pieceBytes   = 512 << 10
)

func newLink(ctx context.Context, nc *nats.Conn, subject string, index, count int) (*bundleLink,
	error) {
	l := &bundleLink{ctx: ctx, nc: nc, subject: subject, index: index, count: count,
		early: map[uint64][]*nats.Msg{}}
	var err error
	if l.sub, err = nc.SubscribeSync(fmt.Sprintf("%s.bundle.%d", subject, index)); err != nil {
		return nil, fmt.Errorf("subscribe to bundles: %w", err)
	}
	// A dropped bundle would end the simulation.
	if err := l.sub.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	return l, nc.Flush()
}

func (l *bundleLink) Processes() int { return l.count }
func (l *bundleLink) Process() int   { return l.index }

// errBundle is returned for a message that is not a bundle.
var errBundle = errors.New("a message is not a bundle of this simulation")

// exchangeBundles sends a bundle to every other process, and returns the bundles that the others
// sent. All processes must call it the same number of times.
func (l *bundleLink) exchangeBundles(bundles [][]byte) ([][]byte, error) {
	l.number++
	for to, b := range bundles {
		if to == l.index {
			continue
		}
		pieces := (len(b)+pieceBytes-1)/pieceBytes + 1 // an empty bundle has one empty piece
		if len(b) > 0 {
			pieces--
		}
		for i := range pieces {
			m := binary.LittleEndian.AppendUint64(nil, l.number)
			m = binary.LittleEndian.AppendUint16(m, uint16(l.index))
			m = binary.LittleEndian.AppendUint32(m, uint32(i))
			m = binary.LittleEndian.AppendUint32(m, uint32(pieces))
			m = append(m, b[min(i*pieceBytes, len(b)):min((i+1)*pieceBytes, len(b))]...)
			if err := l.nc.Publish(fmt.Sprintf("%s.bundle.%d", l.subject, to), m); err != nil {
				return nil, fmt.Errorf("send bundle: %w", err)
			}
		}
	}
	got := make([][]byte, l.count)
	missing := map[int]int{} // missing pieces, by sender
	for i := range l.count {
		if i != l.index {
			missing[i] = -1
		}
	}
	take := func(m *nats.Msg) error {
		from := int(binary.LittleEndian.Uint16(m.Data[8:]))
		pieces := int(binary.LittleEndian.Uint32(m.Data[14:]))
		left, ok := missing[from]
		if !ok || pieces == 0 {
			return errBundle
		}
		if left < 0 {
			left = pieces
		}
		got[from] = append(got[from], m.Data[bundleHeader:]...)
		if missing[from] = left - 1; left == 1 {
			delete(missing, from)
		}
		return nil
	}
	for _, m := range l.early[l.number] {
		if err := take(m); err != nil {
			return nil, err
		}
	}
	delete(l.early, l.number)
	for len(missing) > 0 {
		ctx, cancel := context.WithTimeout(l.ctx, longestWait)
		m, err := l.sub.NextMsgWithContext(ctx)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("wait for bundles: %w", err)
		}
		if len(m.Data) < bundleHeader {
			return nil, errBundle
		}
		switch n := binary.LittleEndian.Uint64(m.Data); {
		case n == l.number:
			if err := take(m); err != nil {
				return nil, err
			}
		case n == l.number+1: // a faster process sent it
			l.early[n] = append(l.early[n], m)
		default:
			return nil, errBundle
		}
	}
	return got, nil
}

// exchangeNumbers tells all processes a number of this process, and returns the numbers of all.
func (l *bundleLink) exchangeNumbers(mine byte) ([]byte, error) {
	out := make([][]byte, l.count)
	for i := range out {
		out[i] = []byte{mine}
	}
	in, err := l.exchangeBundles(out)
	if err != nil {
		return nil, err
	}
	in[l.index] = []byte{mine}
	all := make([]byte, l.count)
	for i, b := range in {
		if len(b) != 1 {
			return nil, errBundle
		}
		all[i] = b[0]
	}
	return all, nil
}

// Swap implements sim.Exchange. A bundle begins with the moment of the sender's next event.
func (l *bundleLink) Swap(bundles [][]byte, earliest []byte) (got, all [][]byte, err error) {
	out := make([][]byte, l.count)
	for i := range out {
		out[i] = append(binary.LittleEndian.AppendUint32(nil, uint32(len(earliest))), earliest...)
		out[i] = append(out[i], bundles[i]...)
	}
	in, err := l.exchangeBundles(out)
	if err != nil {
		return nil, nil, err
	}
	for i, b := range in {
		if i == l.index {
			continue
		}
		if len(b) < 4 {
			return nil, nil, errBundle
		}
		n := binary.LittleEndian.Uint32(b)
		if uint64(n) > uint64(len(b)-4) {
			return nil, nil, errBundle
		}
		all = append(all, b[4:4+n])
		got = append(got, b[4+n:])
	}
	return got, all, nil
}

// Gather implements sim.Exchange.
func (l *bundleLink) Gather(shards [][]byte) ([][]byte, error) {
	var mine []byte
	for i, b := range shards {
		if b != nil {
			mine = binary.LittleEndian.AppendUint32(mine, uint32(i))
			mine = binary.LittleEndian.AppendUint32(mine, uint32(len(b)))
			mine = append(mine, b...)
		}
	}
	out := make([][]byte, l.count)
	for i := range out {
		out[i] = mine
	}
	in, err := l.exchangeBundles(out)
	if err != nil {
		return nil, err
	}
	for _, b := range in {
		for len(b) > 0 {
			if len(b) < 8 {
				return nil, errBundle
			}
			i, n := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
			if int(i) >= len(shards) || uint64(n) > uint64(len(b)-8) {
				return nil, errBundle
			}
			shards[i] = b[8 : 8+n]
			b = b[8+n:]
		}
	}
	return shards, nil
}
