package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
)

// fakeAnswerer accepts keys for a fake client by the same rules as minrtt's answerer.
type fakeAnswerer struct {
	f       *fleet
	secrets map[uint64]minrtt.Secret
	// for each secret that is not in the newest list of secrets: when the secret becomes invalid
	ends        map[uint64]time.Duration
	secretCount int // number of different secrets that it got
}

func (a *fakeAnswerer) accept(m *control.ProbeSecrets) {
	for number := range a.secrets {
		if _, ends := a.ends[number]; !ends {
			a.ends[number] = a.f.time + 2*time.Second
		}
	}
	for _, s := range m.Secrets {
		if _, known := a.secrets[s.Number]; !known {
			a.secretCount++
		}
		a.secrets[s.Number] = minrtt.Secret{Number: s.Number, Bytes: [32]byte(s.Bytes)}
		delete(a.ends, s.Number)
	}
}

// answersProbe says whether this node answers a probe with this key now.
func (a *fakeAnswerer) answersProbe(key minrtt.Key) bool {
	s, known := a.secrets[key.Secret]
	end, ends := a.ends[key.Secret]
	return known && s.Key(key.Prober) == key && (!ends || a.f.time <= end)
}

// wasAnswered reports whether one client (to) answers probes under a key that another client (from)
// has. It also records that this other client has the key.
func (f *fleet) wasAnswered(from, to *fakeClient, encoded []byte) bool {
	key, err := minrtt.DecodeKey(encoded)
	if err != nil {
		f.t.Fatal(err)
	}
	if f.holders[key] == nil {
		f.holders[key] = map[*fakeClient]bool{}
		f.madeAt[key] = f.time
	}
	f.holders[key][from] = true
	f.oldest = max(f.oldest, f.time-f.madeAt[key])
	if !to.answerer.answersProbe(key) {
		f.unanswered++
		return false
	}
	return true
}

// wantKeys checks that no two probers have the same key, and that the given number of trains got no
// answer because of their key.
func (f *fleet) wantKeys(unanswered int) {
	f.t.Helper()
	if f.unanswered != unanswered {
		f.t.Errorf("%d trains had a key that the other node does not accept, want %d",
			f.unanswered, unanswered)
	}
	for key, holders := range f.holders {
		if len(holders) != 1 {
			f.t.Errorf("key %d of secret %d is held by %d nodes",
				key.Prober, key.Secret, len(holders))
		}
	}
}

func (f *fleet) wantOpen() {
	f.t.Helper()
	f.ask(AskStartRun, RunRequest{Name: "r"})
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		f.t.Fatal(f.phase())
	}
}

// Each direction of each pair has its own key. The keys change now and then, and no change loses a
// train.
func TestKeysArePerPairAndRotate(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	f := newFleet(t, testConfig(), names(4)...)
	f.wantSweep(time.Minute)
	f.wantKeys(0)
	if len(f.holders) != 4*3 {
		t.Errorf("%d keys for 12 directions", len(f.holders))
	}
	f.core.config.Budget = 7 // packets a second: one train
	f.wantOpen()
	f.run(3*secretLife+time.Minute, nil)
	f.wantKeys(0)
	for name, c := range f.clients {
		if c.answerer.secretCount < 4 {
			t.Errorf("%s had %d secrets in three times a secret's life", name,
				c.answerer.secretCount)
		}
	}
	if f.oldest > secretLife+time.Second {
		t.Errorf("a key was used for %v", f.oldest)
	}
	f.ask(AskStopRun, nil)
	f.waitComplete()
	f.wantKeys(0)
	// A restarted server still knows the nodes, but not their numbers as probers. Yet it never
	// gives the same key to two nodes.
	f.restart()
	f.core.last = nil
	clear(f.holders)
	f.wantSweep(time.Minute)
	f.run(time.Minute, func() bool { return len(f.holders) >= 12 })
	f.wantKeys(0)
}

// A prober that receives its new keys late loses no train, because its old keys stay valid for
// another secretLife.
func TestAProberThatHearsLateOfNewKeysLosesNoTrain(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	f := newFleet(t, testConfig(), names(3)...)
	f.wantSweep(time.Minute)
	f.core.config.Budget = 7 // packets a second: one train
	f.wantOpen()
	f.run(10*time.Second, nil)
	old := f.clients["n01"].probing
	f.run(secretLife, func() bool { return f.clients["n01"].probing != old })
	f.clients["n01"].probing = old
	used := len(f.holders)
	f.run(secretLife/2, nil)
	if len(f.holders) <= used {
		t.Errorf("%d keys were used, %d before", len(f.holders), used)
	}
	f.wantKeys(0)
}

// If a node accepts its new secret late, other nodes use keys from its previous secret until then.
func TestANodeThatTakesNoNewSecretIsProbedUnderTheOld(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	f := newFleet(t, testConfig(), names(3)...)
	f.wantSweep(time.Minute)
	f.core.config.Budget = 7 // packets a second: one train
	f.wantOpen()
	c := f.clients["n01"]
	c.ignoresSecrets = true
	f.run(secretLife+time.Minute, nil)
	if c.answerer.secretCount != 1 {
		t.Fatalf("it was told of %d secrets", c.answerer.secretCount)
	}
	f.wantKeys(0)
	c.ignoresSecrets = false
	f.run(10*time.Second, nil)
	if c.answerer.secretCount != 2 {
		t.Errorf("it is told of %d secrets when it hears again", c.answerer.secretCount)
	}
	f.wantKeys(0)
}

// A node that registers again and again, each time as a new process, does not get many numbers as a
// prober, so it needs few keys.
func TestANodeThatComesAgainAndAgainHasFewKeys(t *testing.T) {
	f := newFleet(t, testConfig(), names(2)...)
	f.wantSweep(time.Minute)
	c := f.clients["n00"]
	numbers := map[uint64]bool{}
	for i := range 200 {
		c.register.Instance = fmt.Sprintf("another-%d", i)
		c.send(0, &c.register)
		f.run(time.Second, nil)
		numbers[f.core.nodes["n00"].keys.prober] = true
	}
	if n := len(numbers); n < 2 || n > 5 {
		t.Errorf("%d numbers in 200 s", n)
	}
}

// revoke tells the core that a client's key was taken off the list, as the link does.
func (f *fleet) revoke(c *fakeClient) {
	key := control.Key{Name: c.register.Name}
	f.core.handle(control.Incoming{Peer: c.peer, Key: key, Revoked: true})
	f.core.handle(control.Incoming{Key: key, Revoked: true})
}

// When a node's key is taken off the list, all other nodes stop answering its probes within
// seconds, whatever keys the node has. No other node loses a train. A node that was away at that
// moment does not answer the revoked node later.
func TestARevokedNodeGetsNoAnswers(t *testing.T) {
	f := newFleet(t, testConfig(), names(4)...)
	f.wantSweep(time.Minute)
	f.core.config.Budget = 7
	f.wantOpen()
	f.run(secretLife+time.Minute, nil) // by then each node accepts two secrets
	away := f.clients["n03"]
	away.isCut = true
	f.run(f.config.Dead+time.Second, nil)
	liar := f.clients["n01"]
	liar.state = clientKilled // later actions of this node do not matter
	f.revoke(liar)
	f.run(4*time.Second, nil)
	f.wantKeys(0)
	if n := f.core.nodes["n01"]; n.isAlive() || n.goneReason != "its key was taken off the list" {
		t.Errorf("it is %v there, %q", n.isAlive(), n.goneReason)
	}
	answers := func() (n int) {
		for key, holders := range f.holders {
			for name, c := range f.clients {
				if holders[liar] && name != "n01" && !c.isCut && c.answerer.answersProbe(key) {
					n++
				}
			}
		}
		return n
	}
	if n := answers(); n > 0 {
		t.Errorf("it gets answers by %d keys", n)
	}
	away.isCut = false
	away.beat()
	f.run(5*time.Second, nil)
	if n := answers(); !f.core.nodes["n03"].isAlive() || n > 0 {
		t.Errorf("the node that was away is %v there, and %d keys are valid",
			f.core.nodes["n03"].isAlive(), n)
	}
	f.wantKeys(0)
}
