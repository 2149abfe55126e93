package answers

import (
	"encoding/json"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/report"
)

// These are true cycles. A message waited for the last part of its transfer.
const transfer, waited = 26_000, 9_000

// capturedRun makes a run in which a client on node A sends 100 messages to a server on node B, and
// each transfer takes equally long. Nobody receives the last one. It returns the run's directory
// and how many cycles of node A a transfer takes. The run has more channels, too.
func capturedRun(t *testing.T, more ...simrun.Channel) (run string, cycles float64) {
	t.Helper()
	rng := seed.Random(t)
	nodes := simrun.Nodes(rng, 2)
	channels := []simrun.Channel{
		{Node: 0, Name: blackbox.Channel}, {Node: 1, Name: blackbox.Channel},
	}
	log := func(node int, time uint64, events []blackbox.Event, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events { // the stamps become readings of the node's counter
			channels[node].Records = append(channels[node].Records,
				simrun.Record{Time: time, ID: e.ID})
		}
	}
	addresses := []netip.AddrPort{
		netip.MustParseAddrPort("10.0.0.1:1000"), netip.MustParseAddrPort("10.0.0.2:80"),
	}
	for node, program := range []string{"client", "server"} {
		c := blackbox.Connection{
			Number: 1, Family: blackbox.IPv4, Protocol: blackbox.TCP, Cookie: 7,
			Local: addresses[node], Remote: addresses[1-node],
			Sends: uint32(500 + node*400), Receives: uint32(900 - node*400),
		}
		events, err := c.Events(1)
		log(node, simrun.Hz, events, err)
		th := blackbox.Thread{Number: 3, Process: 3, Program: program, Name: program}
		events, err = th.Events(1)
		log(node, simrun.Hz, events, err)
	}
	for i := range uint64(100) {
		at := simrun.Hz + (i+1)*100_000
		m := blackbox.Message{
			Kind: blackbox.Sent, Began_cycles: 1, Ended_cycles: 1, Connection: 1, Thread: 3,
			Position: 501 + 50*i, Bytes: 50, Stream: true, Sure: true, Early: true,
			Width_cycles: blackbox.MinWidth_cycles,
		}
		events, err := m.Events()
		log(0, at, events[:], err)
		if i < 99 {
			m.Kind, m.Early = blackbox.Received, false
			if i < 50 { // of the others, the arrival was not seen
				m.Arrived, m.Arrived_cycles, m.Ended_cycles = true, 1, 1+m.Width_cycles
			}
			events, err = m.Events()
			log(1, at+transfer-waited*(1-min(i/50, 1)), events[:1], err)
			log(1, at+transfer, events[1:], err)
		}
	}
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "captured", nodes, append(channels, more...)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(parent, "captured"), transfer * (1 + float64(nodes[0].Rate)/1e9)
}

// An answer has the captured messages even if no program logged tuples. It says who sent to whom,
// and how long a transfer took. The truth is within the bounds.
func TestAnalyzeMessages(t *testing.T) {
	run, cycles := capturedRun(t)
	_, stdout, stderr := commandtest.Run(Commands(), "analyze", run, "--json", "--reference", "A")
	var answer struct {
		Messages messages.Answer `json:"captured_messages"`
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil {
		t.Fatal(err, stderr)
	}
	m := answer.Messages
	if len(m.Pairs) != 1 || m.Sent != 100 || m.Received != 99 || m.Matched != 99 ||
		m.Left[messages.NotReceived] != 1 || len(m.Left) != 1 || len(m.Nodes) != 2 {
		t.Fatalf("%+v", m)
	}
	p := m.Pairs[0]
	if p.From != (messages.Program{Node: "A", Name: "client"}) ||
		p.To != (messages.Program{Node: "B", Name: "server"}) || p.Messages != 99 ||
		p.Bytes != 99*50 || p.Connections != 1 || p.Unknown+p.Backwards > 0 ||
		len(p.Transfer) != 4 {
		t.Errorf("%+v", p)
	}
	for _, d := range p.Transfer {
		if float64(d.Lo_cycles) > cycles || float64(d.Hi_cycles) < cycles ||
			d.Hi_cycles-d.Lo_cycles > 20_000 {
			t.Errorf("%+v, the truth is %.0f", d, cycles)
		}
	}
	if p.Arrived != 50 || len(p.Arrival) != 4 || len(p.Waited) != 4 {
		t.Errorf("%+v", p)
	}
	for i := range p.Arrival {
		share := float64(waited) / transfer
		for _, d := range []struct {
			got   messages.Percentile
			want  float64
			width int64
		}{{p.Arrival[i], cycles * (1 - share), 20_000}, {p.Waited[i], cycles * share, 1000}} {
			if lo, hi := d.got.Lo_cycles, d.got.Hi_cycles; float64(lo) > d.want ||
				float64(hi) < d.want || hi-lo > d.width {
				t.Errorf("%+v, the truth is %.0f", d.got, d.want)
			}
		}
	}
	_, stdout, stderr = commandtest.Run(Commands(), "analyze", run, "--reference", "A")
	for _, want := range []string{
		"\nmessages captured: 100 calls sent, 99 calls received; of 99 both ends are known\n",
		"  client on A → server on B\n", "  until it arrived, of 50\n",
		"  from then until it was received\n", " 1 sent, receiver not known: not received\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s%s", want, stdout, stderr)
		}
	}
	code, page, stderr := commandtest.Run(Commands(), "report", run, "--output", "-",
		"--reference", "A")
	_, data, _ := strings.Cut(page, `<script id="data" type="application/json">`)
	data, _, _ = strings.Cut(data, "</script>")
	var shown report.Data
	if err := json.Unmarshal([]byte(data), &shown); err != nil {
		t.Fatalf("exit code %d: %v: %s", code, err, stderr)
	}
	want := report.Talk{
		From: 0, To: 1, Asks: true, Messages: 99, Bytes: 99 * 50, Connections: 1,
		Verdict: report.Consistent,
	}
	for _, d := range p.Transfer {
		want.Transfer = append(want.Transfer, report.Percentile{
			P: d.Percent, Lo_cycles: d.Lo_cycles, Hi_cycles: d.Hi_cycles,
		})
	}
	if diff := cmp.Diff([]report.Talk{want}, shown.Messages.Talks); diff != "" {
		t.Error(diff)
	}
	if s := shown.Messages.Services; len(s) != 2 || s[1] != (report.Service{
		Name: "server", Node: "B", Port: 80,
	}) {
		t.Errorf("%+v", s)
	}
}

// --program leaves only the pairs of one program, and fails if there are none.
func TestChooseProgram(t *testing.T) {
	program := func(name string) messages.Program { return messages.Program{Node: "n", Name: name} }
	answer := func() *messages.Answer {
		return &messages.Answer{Pairs: []messages.Pair{
			{From: program("a"), To: program("b")}, {From: program("b"), To: program("c")},
			{From: program("c"), To: program("d")},
		}}
	}
	for name, want := range map[string]int{"a": 1, "b": 2, "d": 1} {
		m := answer()
		if err := chooseProgram(m, name); err != nil || len(m.Pairs) != want {
			t.Errorf("%s: %v, %v", name, m.Pairs, err)
		}
	}
	if err := chooseProgram(answer(), "x"); err == nil ||
		!strings.Contains(err.Error(), "a, b, c, d did") {
		t.Errorf("a program that is not there: %v", err)
	}
	if err := chooseProgram(nil, "a"); err == nil {
		t.Error("without messages, a program was found")
	}
}
