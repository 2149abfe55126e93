package fleet

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/nacl/box"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// link is a node's connection to a server. It speaks ZMTP 3.1 with CURVE (RFC 23, 26) as ZeroMQ
// does, but needs only one socket and one goroutine, so that a process can have ten thousand.
type link struct {
	conn net.Conn
	in   *bufio.Reader

	mu     sync.Mutex // protects the fields below
	shared [32]byte   // the key of the connection
	nonce  uint64
	out    []byte // reused
}

// These are the flags of a ZMTP frame, and of the first byte inside a CURVE message.
const (
	frameMore    = 1
	frameLong    = 2
	frameCommand = 4

	curveMore    = 1
	curveCommand = 2
)

// dialLink connects and proves the key.
func dialLink(address string, key control.Key, server string) (*link, error) {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	l := &link{conn: conn, in: bufio.NewReaderSize(conn, 1024)}
	conn.SetDeadline(time.Now().Add(time.Minute))
	if err := l.handshake(key, server); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect %q: %w", key.Name, err)
	}
	conn.SetDeadline(time.Time{})
	return l, nil
}

func (l *link) close() { l.conn.Close() }

func (l *link) handshake(key control.Key, server string) error {
	var own, secret, remote [32]byte
	for text, to := range map[string]*[32]byte{key.Public: &own, key.Secret: &secret,
		server: &remote} {
		if err := z85(to[:], text); err != nil {
			return err
		}
	}
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10], greeting[11] = 0xff, 0x7f, 3, 1
	copy(greeting[12:], "CURVE")
	if _, err := l.conn.Write(greeting); err != nil {
		return err
	}
	if _, err := io.ReadFull(l.in, greeting); err != nil {
		return err
	}
	public, private, err := box.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}

	hello := append([]byte("\x05HELLO\x01\x00"), make([]byte, 72)...)
	hello = append(hello, public[:]...)
	hello = append(hello, l.next()...)
	hello = box.Seal(hello, make([]byte, 64), nonceOf("CurveZMQHELLO---", l.nonce), &remote,
		private)
	welcome, err := l.command(hello, "\x07WELCOME")
	if err != nil {
		return err
	}
	var nonce [24]byte
	copy(nonce[copy(nonce[:], "WELCOME-"):], welcome[:16])
	opened, ok := box.Open(nil, welcome[16:], &nonce, &remote, private)
	if !ok || len(opened) != 32+96 {
		return errors.New("welcome cannot be opened")
	}
	var session [32]byte
	copy(session[:], opened)

	vouch := make([]byte, 16)
	rand.Read(vouch)
	copy(nonce[copy(nonce[:], "VOUCH---"):], vouch)
	vouch = box.Seal(vouch, append(public[:], remote[:]...), &nonce, &session, &secret)
	content := append(own[:], vouch...)
	content = append(content, "\x0bSocket-Type\x00\x00\x00\x06DEALER"+
		"\x08Identity\x00\x00\x00\x00"...)
	initiate := append([]byte("\x08INITIATE"), opened[32:]...)
	initiate = append(initiate, l.next()...)
	initiate = box.Seal(initiate, content, nonceOf("CurveZMQINITIATE", l.nonce), &session, private)
	if _, err = l.command(initiate, "\x05READY"); err != nil {
		return err
	}
	box.Precompute(&l.shared, &session, private)
	return nil
}

// next returns the next nonce.
func (l *link) next() []byte {
	l.nonce++
	return binary.BigEndian.AppendUint64(nil, l.nonce)
}

func nonceOf(prefix string, number uint64) *[24]byte {
	var n [24]byte
	binary.BigEndian.PutUint64(n[copy(n[:], prefix):], number)
	return &n
}

// command sends a command of the handshake. The server's answer must begin with the given text, and
// command returns what follows this text.
func (l *link) command(c []byte, answer string) ([]byte, error) {
	if _, err := l.conn.Write(append(frameHead(nil, frameCommand, len(c)), c...)); err != nil {
		return nil, err
	}
	_, body, err := l.frame()
	if err != nil {
		return nil, err
	}
	if len(body) < len(answer) || string(body[:len(answer)]) != answer {
		return nil, fmt.Errorf("want %q, got %q", answer, body[:min(len(body), 40)])
	}
	return body[len(answer):], nil
}

func frameHead(b []byte, flags byte, length int) []byte {
	if length < 256 {
		return append(b, flags, byte(length))
	}
	return binary.BigEndian.AppendUint64(append(b, flags|frameLong), uint64(length))
}

func (l *link) frame() (flags byte, body []byte, err error) {
	if flags, err = l.in.ReadByte(); err != nil {
		return 0, nil, err
	}
	length := make([]byte, 8)
	if flags&frameLong == 0 {
		_, err = io.ReadFull(l.in, length[7:])
	} else {
		_, err = io.ReadFull(l.in, length)
	}
	if err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint64(length)
	if n > 2*control.MaxMessageBytes {
		return 0, nil, fmt.Errorf("frame of %d bytes", n)
	}
	body = make([]byte, n)
	_, err = io.ReadFull(l.in, body)
	return flags, body, err
}

// write sends frames that belong together, or a command.
func (l *link) write(flags byte, frames ...[]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.out[:0]
	for i, f := range frames {
		inside := flags
		if i < len(frames)-1 {
			inside |= curveMore
		}
		const head = "\x07MESSAGE"
		b = frameHead(b, 0, len(head)+8+box.Overhead+1+len(f))
		b = append(append(b, head...), l.next()...)
		b = box.SealAfterPrecomputation(b, append([]byte{inside}, f...),
			nonceOf("CurveZMQMESSAGEC", l.nonce), &l.shared)
	}
	_, err := l.conn.Write(b)
	if l.out = b; cap(b) > 4096 {
		l.out = nil
	}
	return err
}

// send sends a message. Any goroutine may call it.
func (l *link) send(request uint64, m control.Message) error {
	frames, err := control.Encode(m, request)
	if err != nil {
		return err
	}
	return l.write(0, frames...)
}

// ping asks whether the server is alive, as ZeroMQ does every two seconds.
func (l *link) ping() error { return l.write(curveCommand, []byte("\x04PING\x00\x00")) }

// receive waits for a message. Only one goroutine may call it. It answers ZeroMQ's pings.
func (l *link) receive() (control.Incoming, error) {
	var frames [][]byte
	for {
		_, body, err := l.frame()
		if err != nil {
			return control.Incoming{}, err
		}
		const head = "\x07MESSAGE"
		if len(body) < len(head)+8 || string(body[:len(head)]) != head {
			return control.Incoming{}, fmt.Errorf("want a message, got %q",
				body[:min(len(body), 40)])
		}
		nonce := nonceOf("CurveZMQMESSAGES", binary.BigEndian.Uint64(body[len(head):]))
		text, ok := box.OpenAfterPrecomputation(nil, body[len(head)+8:], nonce, &l.shared)
		if !ok || len(text) == 0 {
			return control.Incoming{}, errors.New("message cannot be opened")
		}
		flags, text := text[0], text[1:]
		if flags&curveCommand != 0 {
			if len(text) >= 7 && string(text[:5]) == "\x04PING" {
				pong := append([]byte("\x04PONG"), text[7:]...)
				if err := l.write(curveCommand, pong); err != nil {
					return control.Incoming{}, err
				}
			}
			continue
		}
		if frames = append(frames, text); flags&curveMore != 0 {
			continue
		}
		m, request, err := control.Decode(frames)
		return control.Incoming{Request: request, Message: m}, err
	}
}

// call sends a request and waits for its answer. It may be used only before any goroutine calls
// receive.
func (l *link) call(request uint64, m control.Message) (control.Message, error) {
	if err := l.send(request|1<<63, m); err != nil {
		return nil, err
	}
	for {
		in, err := l.receive()
		if err != nil {
			return nil, err
		}
		if r, ok := in.Message.(*control.Refusal); ok {
			return nil, &control.RefusedError{Refusal: *r}
		}
		if in.Request == request|1<<63 {
			return in.Message, nil
		}
	}
}

// register says hello, answers the challenge and registers.
func (l *link) register(r control.Register) (*control.Welcome, error) {
	l.conn.SetDeadline(time.Now().Add(time.Minute))
	defer l.conn.SetDeadline(time.Time{})
	m, err := l.call(1, &control.Hello{Name: r.Name, Software: r.Software})
	if err != nil {
		return nil, err
	}
	challenge, ok := m.(*control.Challenge)
	if !ok {
		return nil, fmt.Errorf("server answers hello with %s", m.Kind())
	}
	r.Nonce = challenge.Nonce
	if m, err = l.call(2, &r); err != nil {
		return nil, err
	}
	welcome, ok := m.(*control.Welcome)
	if !ok {
		return nil, fmt.Errorf("server answers a registration with %s", m.Kind())
	}
	return welcome, nil
}

// z85 decodes a key, which is written in ZeroMQ's base 85.
func z85(to []byte, text string) error {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" +
		".-:+=^!/*?&<>()[]{}@%$#"
	if len(text)*4 != len(to)*5 {
		return fmt.Errorf("key has %d characters", len(text))
	}
	for i := 0; i < len(to); i += 4 {
		var v uint64
		for _, c := range text[i/4*5 : i/4*5+5] {
			v = v*85 + uint64(max(0, strings.IndexRune(digits, c)))
		}
		binary.BigEndian.PutUint32(to[i:], uint32(v))
	}
	return nil
}
