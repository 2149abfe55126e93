package minrtt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"testing"
	"time"
)

var stranger = netip.MustParseAddrPort("192.0.2.66:66")

// injectPacket lets a packet arrive at the answerer at once. It returns how many packets the
// answerer sends in return.
func (f *fakePair) injectPacket(b []byte, from netip.AddrPort) int {
	before := len(f.answerer.sent)
	f.answerer.inbox = append(f.answerer.inbox, delivery{from: from, packet: bytes.Clone(b)})
	f.answerer.serve()
	return len(f.answerer.sent) - before
}

// runInterrupted runs a train. Before the train's third probe leaves, it calls the given function.
// The train must still succeed, with all exchanges.
func (f *fakePair) runInterrupted(t *testing.T, do func()) {
	t.Helper()
	n := 0
	f.route = func(from *fakeEnd, b []byte) []time.Duration {
		if from == f.prober {
			if n++; n == 3 {
				do()
			}
		}
		return []time.Duration{fakeDelay}
	}
	tr, err := f.checkTrain(t)
	if err != nil || len(tr.Exchanges) != 6 || tr.Counts.Lost > 0 {
		t.Errorf("%d exchanges of 6, %d answers lost: %v", len(tr.Exchanges), tr.Counts.Lost, err)
	}
}

func open(key Key, session uint64) []byte {
	p := packet{header: header{kindOpen, session, 0, keyID{key.Secret, key.Prober}}}
	return key.codecUnder().append(nil, &p)
}

// Somebody who has heard everything that a prober ever sent can neither end the prober's trains nor
// get an answer by repeating packets.
func TestReplayedPacketsEndNoLiveTrain(t *testing.T) {
	f := newFakePair(t)
	for range 5 {
		if _, err := f.checkTrain(t); err != nil {
			t.Fatal(err)
		}
	}
	overheard := f.prober.sent
	f.runInterrupted(t, func() {
		overheard = f.prober.sent // including the current train up to now
		for _, from := range []netip.AddrPort{stranger, f.prober.addr} {
			for _, b := range overheard[:len(overheard)-1] {
				if n := f.injectPacket(b, from); n > 0 {
					t.Errorf("%d answers to a replay from %v", n, from)
				}
			}
		}
	})
	if c := f.a.Counts(); c.Duplicate != uint64(2*(len(overheard)-1)) {
		t.Errorf("%d packets were replayed, counts are %+v", 2*(len(overheard)-1), c)
	}
}

// Nobody can end another prober's train: neither a stranger who forges packets, nor a prober that
// uses more keys than an answerer has room for.
func TestOthersOpensEndNoLiveTrain(t *testing.T) {
	f := newFakePair(t)
	f.runInterrupted(t, func() {
		for i := range uint64(2 * maxSessions) {
			forged := Key{Secret: testKey.Secret, Prober: i}
			if i%2 == 0 {
				forged.Prober, forged.Bytes[0] = testKey.Prober, byte(i)
			}
			if n := f.injectPacket(open(forged, i), stranger); n > 0 {
				t.Fatalf("%d answers to a forged open", n)
			}
		}
		for i := range uint64(2 * maxSessions) {
			f.injectPacket(open(testSecret.Key(i), 1<<40), stranger)
		}
	})
	if len(f.a.sessions) != maxSessions {
		t.Errorf("%d sessions, want %d", len(f.a.sessions), maxSessions)
	}
	if c := f.a.Counts(); c.Crowded != maxSessions+1 || c.Forged != 2*maxSessions {
		t.Errorf("counts are %+v", c)
	}
	// A new session replaces a dead one.
	f.now += liveFor + time.Second
	if n := f.injectPacket(open(testSecret.Key(1<<50), 1), stranger); n != 1 {
		t.Error("no session was replaced although all have been silent for long")
	}
	if len(f.a.sessions) != maxSessions {
		t.Errorf("%d sessions, want %d", len(f.a.sessions), maxSessions)
	}
}

// A prober that knows its own keys, and hears all packets, can neither answer in another node's
// name nor probe in another prober's name.
func TestAMemberForgesNoOtherPairsPackets(t *testing.T) {
	f := newFakePair(t)
	members := testSecret.Key(testKey.Prober + 1)
	f.runInterrupted(t, func() {
		q := newPacket(t, f.prober.sent[len(f.prober.sent)-1])
		answer := packet{header: q.header}
		answer.kind |= answerBit
		answer.received.counter_cycles = 1 << 50
		for _, id := range []keyID{testID, {members.Secret, members.Prober}} {
			answer.key = id
			f.deliver(delivery{f.now, f.prober, f.answerer.addr,
				members.codecUnder().append(nil, &answer)})
			q.key = id
			q.session, q.kind = q.session+1, kindOpen
			if n := f.injectPacket(members.codecUnder().append(nil, &q),
				f.prober.addr); id == testID &&
				n > 0 {
				t.Error("a member opens a train in another's name")
			}
		}
	})
	if c := f.a.Counts(); c.Forged != 1 {
		t.Errorf("counts of the answerer: %+v", c)
	}
}

// Secrets may change during a train without a lost packet, whether or not the previous secret is
// listed together with the new one. Later, keys of the previous secret get no answer.
func TestSecretsChangeInTheMiddleOfATrain(t *testing.T) {
	f := newFakePair(t)
	next, last := NewSecret(), NewSecret()
	f.runInterrupted(t, func() { f.a.Accept([]Secret{next, testSecret}) })
	f.now += 10 * overlapTime
	f.runInterrupted(t, func() { f.a.Accept([]Secret{last, next}) })
	overheard := f.prober.sent[len(f.prober.sent)-1]
	f.now += overlapTime + time.Millisecond
	f.route = func(*fakeEnd, []byte) []time.Duration { return []time.Duration{fakeDelay} }
	if _, err := f.p.Train(t.Context()); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("with a key of a secret that is no longer accepted: %v", err)
	}
	if n := f.injectPacket(overheard, f.prober.addr); n > 0 {
		t.Error("a packet of its train is answered")
	}
	if len(f.a.secrets) != 2 || len(f.a.sessions) != 0 {
		t.Errorf("%d secrets and %d sessions are left", len(f.a.secrets), len(f.a.sessions))
	}
	f.p.Use(last.Key(testKey.Prober))
	f.runInterrupted(t, func() {})
	for _, s := range []Secret{next, last} {
		if n := f.injectPacket(open(s.Key(1), 1), stranger); n != 1 {
			t.Error("a key of a secret that is accepted gets no answer")
		}
	}
}

// An answerer without secrets answers everybody, until it gets secrets.
func TestAnAnswererWithoutSecretsAnswersAnybody(t *testing.T) {
	n := newFakeNet()
	a, err := NewAnswerer(n.answerer, n.answerer.clock(), nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakePair{fakeNet: n, a: a}
	n.answerer.serve = func() {
		if err := a.serveOne(n.answerer.Now()); err != nil {
			t.Error(err)
		}
	}
	f.p, err = NewProber(n.prober, n.prober.clock(), n.answerer.addr, DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	f.runInterrupted(t, func() { f.injectPacket(open(Key{Prober: 5}, 1), stranger) })
	if _, err := f.checkTrain(t); err != nil {
		t.Error(err)
	}
	a.Accept([]Secret{testSecret})
	if _, err := f.checkTrain(t); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("without a key, after Accept: %v", err)
	}
}

// hmacOnce returns what crypto/hmac returns, for messages of up to longestSize bytes.
func TestHMACOnce(t *testing.T) {
	for n := range longestSize + 1 {
		message := bytes.Repeat([]byte{byte(n)}, n)
		c := testKey.codecUnder()
		c.authenticate(message)
		if got := hmacOnce(&testKey.Bytes, message); got != c.sum {
			t.Fatalf("of %d bytes: %x, want %x", n, got, c.sum)
		}
	}
}

// Refusing a forged packet allocates nothing, because anybody can send many such packets.
func TestAForgedPacketAllocatesNothing(t *testing.T) {
	f := newFakePair(t)
	forged := open(Key{Secret: testKey.Secret, Prober: 5}, 1)
	if n := testing.AllocsPerRun(100, func() { f.a.takePacket(forged, stranger) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// The expected bytes come from Python's hmac module.
func TestKeyBytes(t *testing.T) {
	s := Secret{Number: 0x1112131415161718}
	for i := range s.Bytes {
		s.Bytes[i] = byte(i)
	}
	k := s.Key(0x0102030405060708)
	want := "1112131415161718" + "0102030405060708" +
		"27710cea9d6cce91159b25aba1761ac5096018a4c932b49ff932852dc0e9a683"
	if got := hex.EncodeToString(k.Encode()); got != want {
		t.Errorf("key is %s, want %s", got, want)
	}
	again, err := DecodeKey(k.Encode())
	if err != nil || again != k {
		t.Errorf("decoded it is %+v: %v", again, err)
	}
	none, err := DecodeKey(Key{}.Encode())
	if err != nil || none != (Key{}) {
		t.Errorf("no key decodes to %+v: %v", none, err)
	}
	if _, err := DecodeKey(make([]byte, sha256.Size)); err == nil {
		t.Error("a key of version 1 is taken")
	}
}

// A transmit stamp may come after the next train under the same key has reached the same sequence
// number. Such a stamp does not become the stamp of that train's answer.
func TestALateTransmitStampIsNotTheNextTrains(t *testing.T) {
	f := newFakePair(t)
	f.stampInKernel()
	if _, err := f.checkTrain(t); err != nil {
		t.Fatal(err)
	}
	late := queuedStamp{f.answerer.sent[2], Stamps{RealtimeNS: f.answerer.realtime(f.now)}}
	f.route = func(from *fakeEnd, b []byte) []time.Duration {
		if from == f.prober && newPacket(t, b).sequence == 3 {
			f.answerer.queued = append(f.answerer.queued, late)
		}
		return []time.Duration{fakeDelay}
	}
	tr, err := f.checkTrain(t)
	if err != nil || tr.Counts.Outside > 0 {
		t.Fatalf("%d stamps contradict the others: %v", tr.Counts.Outside, err)
	}
	if e := tr.Exchanges[2]; e.Answered != Kernel {
		t.Errorf("transmit stamp of the answer is %v", e.Answered)
	}
}
