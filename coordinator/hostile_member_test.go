package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/pebbe/zmq4"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// hostileJob makes a client hostile. The client knows the true readings of all counters: a liar
// that knows the truth lies best.
type hostileJob struct {
	Seed    uint64
	Fleet   []hostilePeer // the last one is the client itself
	Patient bool          // the client also does things that delay the end of a run by minutes
}

type hostilePeer struct {
	Name, Epoch string
	Clocks      []byte
}

// hostileClient is a member of the fleet with a key of its own. It does whatever it likes.
type hostileClient struct {
	job         job
	key, server control.Key
	peers       []hostilePeer // all peers, without the member itself
	truth       map[string]*vnode.Truth
	link        *control.Client
	context     *zmq4.Context
	answerer    *minrtt.Answerer

	// Only the goroutine that does the deeds uses these fields.
	rand     *rand.Rand
	register control.Register

	mu     sync.Mutex // guards the fields below
	epoch  string     // the member's epoch as the server knows it
	report uint64
}

func newHostile(j job, key, server control.Key) *hostileClient {
	return &hostileClient{
		job: j, key: key, server: server, truth: map[string]*vnode.Truth{},
		rand: rand.New(rand.NewPCG(j.Hostile.Seed, 0)), epoch: j.Node.Epoch,
	}
}

// hostileDeeds are done in random order.
var hostileDeeds = []struct {
	name string
	do   func(*hostileClient) error
}{
	{"lies", (*hostileClient).lies},
	{"lies about itself and others", (*hostileClient).liesOfNoEnd},
	{"large reports", (*hostileClient).largeReports},
	{"epochs", (*hostileClient).epochs},
	{"names", (*hostileClient).registerOthers},
	{"facts", (*hostileClient).facts},
	{"snapshots", (*hostileClient).snapshots},
	{"asks", (*hostileClient).asks},
	{"answers to questions that nobody asked", (*hostileClient).sendUnasked},
	{"garbage", (*hostileClient).sendGarbage},
	{"garbage instead of ZeroMQ", (*hostileClient).sendNoise},
	{"connections", (*hostileClient).openMany},
	{"deafness", (*hostileClient).askEndlessly},
	{"an endless message", (*hostileClient).sendEndless},
}

// run does hostile deeds until the process is killed.
func (h *hostileClient) run() error {
	for _, p := range h.job.Hostile.Fleet {
		clocks, err := vnode.ParseConfig(p.Clocks)
		if err != nil {
			return err
		}
		if h.truth[p.Name], err = vnode.NewTruth(clocks.Counter); err != nil {
			return err
		}
		if p.Name != h.job.Node.Name {
			h.peers = append(h.peers, p)
		}
	}
	n := h.job.Node
	h.register = control.Register{
		Name: n.Name, Instance: "hostile", Epoch: n.Epoch, Nominal_hz: n.Nominal_hz,
		Quantum_cycles: n.Quantum_cycles, CoreSlack_cycles: n.CoreSlack_cycles, Virtual: true,
		Machine: "this", Cores: h.job.Cores, Software: "test",
		ProbeAddress: h.job.Listen.String(),
		Capabilities: []string{
			control.CanProbe, control.CanRun, control.CanTable, control.CanFiles,
			control.CanSnapshot,
		},
	}
	if err := h.answerProbes(); err != nil {
		return err
	}
	var err error
	if h.context, err = zmq4.NewContext(); err != nil {
		return err
	}
	config := control.ClientConfig{Server: h.job.Address, Key: &h.key, Public: h.server.Public}
	h.link, err = control.Dial(config)
	if err != nil {
		return err
	}
	go h.obeyFalsely()
	go h.sendPings()
	for ; ; h.lieSlowly() {
		for _, i := range h.rand.Perm(len(hostileDeeds)) {
			h.signUp(h.register) // the server may refuse this if the member has used up its share
			d := hostileDeeds[i]
			err := d.do(h)
			text, _ := json.Marshal(struct{ Did, Error string }{d.name, fmt.Sprint(err)})
			fmt.Fprintf(os.Stderr, "%s\n", text)
		}
	}
}

// lieSlowly tells lies for a second, with pauses. Without these pauses the member would soon use up
// its share of the server's time, and the server would refuse all other deeds.
func (h *hostileClient) lieSlowly() {
	h.during(time.Second, func() { h.lies(); time.Sleep(50 * time.Millisecond) })
}

func (h *hostileClient) during(d time.Duration, do func()) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		do()
	}
}

func within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// signUp registers the member. The error is the reason why the server did not accept the
// registration.
func (h *hostileClient) signUp(r control.Register) error {
	ctx, cancel := within(2 * time.Second)
	defer cancel()
	_, err := h.link.Register(ctx, r)
	if err == nil && r.Name == h.job.Node.Name {
		h.mu.Lock()
		h.epoch = r.Epoch
		h.mu.Unlock()
	}
	return err
}

func (h *hostileClient) send(request uint64, m control.Message) error {
	ctx, cancel := within(time.Second)
	defer cancel()
	return h.link.Send(ctx, request, m)
}

// sendPings sends pings, so that the server keeps the member registered.
func (h *hostileClient) sendPings() {
	for range time.Tick(200 * time.Millisecond) {
		h.send(0, &control.Ping{})
	}
}

// A liarsLine predicts what a node's counter shows near the present moment. The prediction is less
// exact than a reading, but exact enough for a liar.
type liarsLine struct {
	at, reading uint64
	rate        float64
}

func (h *hostileClient) line(name string) liarsLine {
	const back = 1e8
	now := asm.Counter()
	t := h.truth[name]
	return liarsLine{now, t.Reading(now), float64(t.Reading(now)-t.Reading(now-back)) / back}
}

func (l liarsLine) interval(back uint64, lie int64, width uint64) tscratio.Interval {
	lo := l.reading - uint64(float64(back)*l.rate) + uint64(lie)
	return tscratio.Interval{Lo: lo, Hi: lo + width}
}
