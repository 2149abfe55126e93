package control

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/pebbe/zmq4"
)

const zapDomain = "cloudprofiler"

// A zap answers ZeroMQ when ZeroMQ asks whether a key is accepted (RFC 27, version 1.0 of ZAP). It
// also notices when a key is no longer accepted.
type zap struct {
	read    func() ([]Key, error)
	revoke  func(Key) bool // returns false if the key cannot be revoked now
	refused *refusals
	socket  *zmq4.Socket // used only by the goroutine of serve
	done    chan struct{}
	close   func()

	mu   sync.Mutex
	keys map[string]Key // by public key: keys on the list, and keys that must still be revoked

	// Only the goroutine of serve uses these fields.
	list     []Key // what read returned last
	allowed  map[string]bool
	missing  map[string]bool // keys that were not on the list at the last look
	readAt   time.Time
	lookedAt time.Time
	complain string // the last error about the list
	partial  bool   // for a temporary reason, only a part of the list could be read
}

// listEvery is the interval at which zap looks for keys that have left the list.
const listEvery = time.Second

func newZap(
	ctx *zmq4.Context, read func() ([]Key, error), revoke func(Key) bool, r *refusals,
) (*zap, error) {
	z := &zap{
		read: read, revoke: revoke, refused: r, done: make(chan struct{}),
		keys: map[string]Key{}, missing: map[string]bool{},
	}
	var err error
	if z.socket, err = ctx.NewSocket(zmq4.REP); err != nil {
		return nil, err
	}
	err = errors.Join(z.socket.SetLinger(0), z.socket.SetRcvtimeo(100*time.Millisecond),
		z.socket.Bind("inproc://zeromq.zap.01"))
	if err != nil {
		z.socket.Close()
		return nil, err
	}
	z.reload()
	stop := make(chan struct{})
	go z.serve(stop)
	z.close = sync.OnceFunc(func() { close(stop); <-z.done })
	return z, nil
}

func (z *zap) serve(stop chan struct{}) {
	defer close(z.done)
	defer z.socket.Close()
	for {
		select {
		case <-stop:
			return
		default:
		}
		z.revokeMissing(time.Now())
		m, err := z.socket.RecvMessage(0)
		if err != nil {
			continue // the wait timed out, or the context ended and stop is closed next
		}
		z.socket.SendMessage(z.answerRequest(m))
	}
}

// answerRequest returns the reply to a request. The request consists of version, id, domain,
// address, identity, mechanism and credentials.
func (z *zap) answerRequest(m []string) []string {
	if len(m) < 2 {
		return []string{"1.0", "", "500", "short request", "", ""}
	}
	no := func(why string) []string { return []string{"1.0", m[1], "400", why, "", ""} }
	if len(m) != 7 || m[0] != "1.0" || m[2] != zapDomain || m[5] != "CURVE" || len(m[6]) != 32 {
		return no("not a CURVE request")
	}
	public := zmq4.Z85encode(m[6])
	// A key that was just added to the list must be accepted at once. So an unknown key makes zap
	// read the list again, but strangers cannot cause more than ten readings a second.
	age := time.Since(z.readAt)
	if age > time.Second || age > 100*time.Millisecond && !z.allowed[public] {
		z.reload()
	}
	if !z.allowed[public] {
		z.refused.add(ReasonKey, "key is not on the list", "address", m[3], "key", public)
		return no("key is not on the list")
	}
	return []string{"1.0", m[1], "200", "", public, ""}
}

func (z *zap) reload() {
	z.readAt = time.Now()
	var keys []Key
	var err error
	if z.read != nil {
		keys, err = z.read()
	}
	if err == nil && z.complain == "" && len(keys) > 0 && len(keys) == len(z.list) &&
		&keys[0] == &z.list[0] {
		return // it is the same list
	}
	z.list = keys
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != z.complain && text != "" && z.refused.log != nil {
		z.refused.log.Error("list of client keys", "error", text)
	}
	z.complain = text
	z.partial = isTemporary(err)
	z.allowed = map[string]bool{}
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, k := range keys {
		z.allowed[k.Public] = true
		z.keys[k.Public] = k
	}
}

// revokeMissing revokes a key that two looks in a row did not find on the list. One look is not
// enough: while somebody replaces a key's file, the file is missing for a moment.
func (z *zap) revokeMissing(now time.Time) {
	if now.Sub(z.lookedAt) < listEvery {
		return
	}
	z.lookedAt = now
	z.reload()
	if z.partial {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	for public, key := range z.keys {
		switch {
		case z.allowed[public]:
			delete(z.missing, public)
		case !z.missing[public]:
			z.missing[public] = true
		case z.revoke(key):
			delete(z.missing, public)
			delete(z.keys, public)
		}
	}
}

// isTemporary reports whether an error in reading the list is temporary. Such an error does not
// show that a key was removed.
func isTemporary(err error) bool {
	for _, passing := range []error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, syscall.ESTALE,
		syscall.ETIMEDOUT,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// keyOf returns the key of a connection, and whether the server still accepts it.
func (z *zap) keyOf(public string) (Key, bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	key, ok := z.keys[public]
	return key, ok
}
