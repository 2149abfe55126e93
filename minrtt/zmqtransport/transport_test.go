package zmqtransport

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

var (
	testSecret = minrtt.NewSecret()
	another    = minrtt.NewSecret()
)

func answerer(t *testing.T) (netip.AddrPort, *minrtt.Answerer) {
	t.Helper()
	listener, at, err := Listen(loopback, asm.Counter)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []minrtt.Secret{testSecret}
	a, err := minrtt.NewAnswerer(listener, minrtt.Clock{Counter: asm.Counter}, secrets)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("served until %v", err)
		}
	})
	return at, a
}

func prober(t *testing.T, at netip.AddrPort, secret minrtt.Secret) *minrtt.Prober {
	t.Helper()
	dialer, err := Dial(at, asm.Counter)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialer.Close() })
	config := minrtt.DefaultConfig()
	config.Key, config.Timeout = secret.Key(1), 2*time.Second
	if secret == another {
		config.Timeout, config.Attempts = 50*time.Millisecond, 2
	}
	p, err := minrtt.NewProber(dialer, minrtt.Clock{Counter: asm.Counter}, at, config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Trains succeed, and their stamps are in the order in which they were taken, since both ends read
// one counter.
func TestTrains(t *testing.T) {
	at, _ := answerer(t)
	p := prober(t, at, testSecret)
	for range 5 {
		train, err := p.Train(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(train.Exchanges) != 6 {
			t.Fatalf("%d exchanges, want 6: %+v", len(train.Exchanges), train.Counts)
		}
		for _, e := range train.User() {
			if !(e.Sent.Lo < e.Received.Hi && e.Received.Lo < e.Answered.Hi &&
				e.Answered.Lo < e.Returned.Hi) {
				t.Errorf("%+v is out of order", e)
			}
		}
		for _, e := range train.Exchanges {
			if e.Sent != minrtt.Unsupported || e.Returned != minrtt.Unsupported {
				t.Errorf("stamps come from %v and %v", e.Sent, e.Returned)
			}
		}
	}
}

// A probe that must not be answered gets no answer, but the socket still answers the next probe.
func TestRefusedProbesDoNotStopTheAnswerer(t *testing.T) {
	at, a := answerer(t)
	if _, err := prober(t, at, another).Train(t.Context()); !errors.Is(err, minrtt.ErrNoAnswer) {
		t.Errorf("with another key: %v", err)
	}
	if _, err := prober(t, at, testSecret).Train(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if got := a.Counts().Forged; got == 0 {
		t.Error("no probe was counted as forged")
	}
}

func TestReceiveEnds(t *testing.T) {
	listener, _, err := Listen(loopback, asm.Counter)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if _, err := listener.Receive(b, time.Now().Add(time.Millisecond)); !errors.Is(err,
		minrtt.ErrTimeout) {
		t.Errorf("nothing came: %v", err)
	}
	ended := make(chan error)
	go func() {
		_, err := listener.Receive(b, time.Now().Add(time.Hour))
		ended <- err
	}()
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, minrtt.ErrClosed) {
		t.Errorf("closed meanwhile: %v", err)
	}
	if err := listener.Close(); !errors.Is(err, minrtt.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := listener.Send(b, loopback); !errors.Is(err, minrtt.ErrClosed) {
		t.Errorf("sent after: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, _, err := Listen(loopback, nil); err == nil {
		t.Error("listens without a counter")
	}
	if _, _, err := Listen(netip.MustParseAddrPort("192.0.2.1:1"), asm.Counter); err == nil {
		t.Error("listens on another machine's address")
	}
}
