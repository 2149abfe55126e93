package wire

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/overlay"
)

const (
	magic   = "CPOV"
	version = 1

	signatureAt = 8
	counterAt   = signatureAt + SignatureBytes
	nameAt      = counterAt + 8
	codeBytes   = 16

	// maxDatagram is the largest datagram. A walk with 49 of the longest names is larger than the
	// datagrams of most networks, and is sent in fragments.
	maxDatagram = 16 << 10

	// maxPeers is the number of other nodes whose keys a socket remembers.
	maxPeers = 2048

	// verifiesPerSecond and verifiesBurst limit how many signatures of unknown names a socket
	// checks. A check takes some 60 µs. In a fleet that loses half of its nodes, a node hears of
	// fewer than a hundred strangers a second.
	verifiesPerSecond = 200
	verifiesBurst     = 1000
)

var (
	errShort     = errors.New("datagram is too short")
	errForeign   = errors.New("datagram does not start with the magic")
	errVersion   = errors.New("datagram is of another version")
	errSignature = errors.New("sender's name is not signed by an issuer of this fleet")
	errBusy      = errors.New("too many unknown senders")
	errSealed    = errors.New("datagram was not sealed for this node by its sender")
	errReplayed  = errors.New("datagram came before")
)

// Counts counts the datagrams of a Socket.
type Counts struct {
	Sent, Received           uint64
	SentBytes, ReceivedBytes uint64 // without the headers of UDP and IP
	Unsent                   uint64 // the kernel refused them, or this node's name is not signed
	Refused                  uint64 // datagrams that are no messages from members of the graph
	Why                      string // why the last one was refused
}

// A Socket carries messages between this node and others. It is an overlay.Transport. Any goroutine
// may use it, but only one at a time may call Receive.
type Socket struct {
	identity *Identity
	conn     *net.UDPConn
	now      func() time.Time

	mu        sync.Mutex
	issuers   [][]byte
	signature []byte
	peers     map[overlay.Name]*peer
	counts    Counts
	floor     uint64  // no forgotten peer was sent a counter above this one
	tokens    float64 // number of signatures that may be checked now
	filled    time.Time
}

// peer is another node, and the keys of the datagrams to and from it.
type peer struct {
	address  netip.AddrPort
	out, in  cipher.AEAD
	sent     uint64 // counter of the last datagram to the peer
	verified []byte // the signature of its name that was found to be true; nil: none yet
	window   window
	used     time.Time
}

// Listen opens a socket at an address, where port 0 means any free port. The last parameter is the
// address at which others reach the node, on the socket's port.
func Listen(node string, at netip.AddrPort, advertise netip.Addr) (*Socket, error) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, fmt.Errorf("listen for the graph at %v: %w", at, err)
	}
	port := conn.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	identity, err := NewIdentity(node, netip.AddrPortFrom(advertise, port))
	if err != nil {
		conn.Close()
		return nil, err
	}
	return newSocket(identity, conn), nil
}

func newSocket(identity *Identity, conn *net.UDPConn) *Socket {
	return &Socket{identity: identity, conn: conn, now: time.Now,
		peers: map[overlay.Name]*peer{}, tokens: verifiesBurst, filled: time.Now()}
}

// Name returns the name under which others reach this node.
func (s *Socket) Name() overlay.Name { return s.identity.Name }

// Use sets the public keys of the issuers to trust, and the signature of this node's name by one of
// them. Until the first call of Use, the socket neither sends nor receives. Names that only an
// earlier issuer signed are refused.
func (s *Socket) Use(issuers [][]byte, signature []byte) error {
	if err := Check(s.identity.Name, issuers, signature); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issuers, s.signature = issuers, signature
	for _, p := range s.peers {
		p.verified = nil
	}
	return nil
}

// Counts returns the counts up to now.
func (s *Socket) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Close closes the socket. A waiting Receive returns.
func (s *Socket) Close() error { return s.conn.Close() }

// Send sends a message of the graph. It implements overlay.Transport.
func (s *Socket) Send(to overlay.Name, m overlay.Message) { s.SendAny(to, m) }

// SendAny sends a message of the graph or of this package.
func (s *Socket) SendAny(to overlay.Name, m any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	datagram, address, err := s.seal(to, m)
	if err == nil {
		_, err = s.conn.WriteToUDPAddrPort(datagram, address)
	}
	if err != nil {
		s.counts.Unsent++
		return
	}
	s.counts.Sent++
	s.counts.SentBytes += uint64(len(datagram))
}

// seal returns the datagram of a message, and where to send it. The caller must have locked s.mu.
func (s *Socket) seal(to overlay.Name, m any) ([]byte, netip.AddrPort, error) {
	if s.signature == nil {
		return nil, netip.AddrPort{}, errSignature
	}
	p, err := s.peer(to)
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	text, err := Encode(nil, m)
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	p.sent++
	b := make([]byte, 0, nameAt+1+len(s.identity.Name)+len(text)+codeBytes)
	b = append(b, magic...)
	b = append(b, version, 0, 0, 0)
	b = append(b, s.signature...)
	b = binary.BigEndian.AppendUint64(b, p.sent)
	b = append(b, uint8(len(s.identity.Name)))
	b = append(b, s.identity.Name...)
	return p.out.Seal(b, nonce(p.sent), text, b), p.address, nil
}

func nonce(counter uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 4, 12), counter)
}

// Overhead returns the number of bytes that a datagram of a node has in addition to the message.
func Overhead(from overlay.Name) int { return nameAt + 1 + len(from) + codeBytes }

// Receive waits for a message from a member of the graph. It returns an error only if the socket is
// closed.
func (s *Socket) Receive() (overlay.Name, any, error) {
	b := make([]byte, maxDatagram)
	for {
		n, _, err := s.conn.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return "", nil, err
		}
		if err != nil {
			continue // an earlier datagram was not delivered
		}
		if from, m, err := s.open(b[:n]); err == nil {
			return from, m, nil
		}
	}
}

// open returns the sender and the message of a datagram.
func (s *Socket) open(b []byte) (overlay.Name, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, m, err := s.unseal(b)
	if err != nil {
		s.counts.Refused++
		s.counts.Why = err.Error()
		return "", nil, err
	}
	s.counts.Received++
	s.counts.ReceivedBytes += uint64(len(b))
	return from, m, nil
}

func (s *Socket) unseal(b []byte) (overlay.Name, any, error) {
	switch {
	case len(b) < len(magic) || string(b[:len(magic)]) != magic:
		return "", nil, errForeign
	case len(b) <= nameAt:
		return "", nil, errShort
	case b[len(magic)] != version:
		return "", nil, errVersion
	}
	end := nameAt + 1 + int(b[nameAt])
	if len(b) < end {
		return "", nil, errShort
	}
	from := overlay.Name(b[nameAt+1 : end])
	if err := s.verify(from, b[signatureAt:counterAt]); err != nil {
		return "", nil, err
	}
	p, err := s.peer(from)
	if err != nil {
		return "", nil, err
	}
	counter := binary.BigEndian.Uint64(b[counterAt:])
	text, err := p.in.Open(nil, nonce(counter), b[end:], b[:end])
	if err != nil {
		return "", nil, errSealed
	}
	if !p.window.accepts(counter) {
		return "", nil, errReplayed
	}
	p.verified = bytes.Clone(b[signatureAt:counterAt])
	m, err := Decode(text)
	return from, m, err
}

// verify checks the signature of a name, unless it has checked the same one before.
func (s *Socket) verify(name overlay.Name, signature []byte) error {
	if p := s.peers[name]; p != nil && bytes.Equal(p.verified, signature) {
		return nil
	}
	now := s.now()
	s.tokens = min(verifiesBurst, s.tokens+verifiesPerSecond*now.Sub(s.filled).Seconds())
	s.filled = now
	if s.tokens < 1 {
		return errBusy
	}
	s.tokens--
	if !isSigned(name, s.issuers, signature) {
		return errSignature
	}
	return nil
}

// peer returns what the socket knows of a node. If the socket knows nothing of the node, the method
// peer derives the keys. The caller must have locked s.mu.
func (s *Socket) peer(name overlay.Name) (*peer, error) {
	now := s.now()
	if p := s.peers[name]; p != nil {
		p.used = now
		return p, nil
	}
	card, err := ParseName(name)
	if err != nil {
		return nil, err
	}
	shared, err := s.identity.private.ECDH(card.key)
	if err != nil {
		return nil, fmt.Errorf("keys with %q: %w", name, err)
	}
	own := s.identity.Name
	p := &peer{address: card.Address, used: now, sent: s.floor,
		out: sealer(shared, own, name), in: sealer(shared, name, own)}
	if len(s.peers) >= maxPeers {
		s.forget()
	}
	s.peers[name] = p
	return p, nil
}

// forget drops the peer whose last use is the longest ago.
func (s *Socket) forget() {
	var oldest overlay.Name
	var when time.Time
	for name, p := range s.peers {
		if oldest == "" || p.used.Before(when) {
			oldest, when = name, p.used
		}
	}
	// If the socket later sends to the forgotten node again, it derives the same key. So the
	// datagram's counter must be one that was never used with this key.
	s.floor = max(s.floor, s.peers[oldest].sent)
	delete(s.peers, oldest)
}

// sealer returns the cipher of the datagrams from one node to another.
func sealer(shared []byte, from, to overlay.Name) cipher.AEAD {
	mac := hmac.New(sha256.New, shared)
	mac.Write([]byte(magic))
	for _, n := range []overlay.Name{from, to} {
		mac.Write([]byte{uint8(len(n))})
		mac.Write([]byte(n))
	}
	block, _ := aes.NewCipher(mac.Sum(nil)) // no error: the key has 32 bytes
	aead, _ := cipher.NewGCM(block)         // no error: a block has 16 bytes
	return aead
}

// window remembers which of the last counters arrived, so that no datagram is accepted twice.
type window struct {
	last uint64
	came uint64 // bit i: the counter last − i came
}

func (w *window) accepts(counter uint64) bool {
	switch {
	case counter == 0:
		return false
	case counter > w.last:
		if by := counter - w.last; by < 64 {
			w.came = w.came<<by | 1
		} else {
			w.came = 1
		}
		w.last = counter
		return true
	case w.last-counter >= 64 || w.came>>(w.last-counter)&1 == 1:
		return false
	}
	w.came |= 1 << (w.last - counter)
	return true
}
