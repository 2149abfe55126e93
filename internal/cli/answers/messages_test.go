package answers

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/report"
)

const transfer, waited = simrun.Transfer_cycles, simrun.Waited_cycles

// capturedRun makes a run with simrun.Captured. It returns the run's directory and how many cycles
// of node A a transfer takes.
func capturedRun(t *testing.T, more ...simrun.Channel) (run string, cycles float64) {
	t.Helper()
	parent := t.TempDir()
	nodes, err := simrun.Captured(seed.Random(t), parent, "captured", more...)
	if err != nil {
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
	if p.Arrived != 50 || p.Divided != 25 || p.Resent != 1 || len(p.Arrival) != 4 ||
		len(p.Waited) != 4 || len(p.Kernel) != 4 || len(p.Program) != 4 || len(p.Resending) != 4 {
		t.Fatalf("%+v", p)
	}
	rate := cycles / transfer
	for i := range p.Arrival {
		for _, d := range []struct {
			got   messages.Percentile
			want  float64
			width int64
		}{
			{p.Arrival[i], rate * (transfer - waited), 20_000}, {p.Waited[i], rate * waited, 1000},
			{p.Program[i], rate * simrun.Busy_cycles, 1000},
			{p.Kernel[i], rate * (waited - simrun.Busy_cycles), 2000},
			{p.Resending[i], rate * simrun.Resending_cycles, 1000},
		} {
			if lo, hi := d.got.Lo_cycles, d.got.Hi_cycles; float64(lo) > d.want ||
				float64(hi) < d.want || hi-lo > d.width {
				t.Errorf("%+v, the truth is %.0f", d.got, d.want)
			}
		}
	}
	_, stdout, stderr = commandtest.Run(Commands(), "analyze", run, "--reference", "A")
	for _, want := range []string{
		"\nmessages captured: 100 calls sent, 99 calls received; of 99 both ends are known\n",
		"  client on A → server on B (" + simrun.ServerName + ")\n",
		"  network: until it arrived, of 50\n",
		"  from then until it was received, of 50\n",
		"  kernel: of that, the receiver waited for it or took it, of 25\n",
		"  program: of that, the receiver did something else, of 25\n",
		"  until TCP sent bytes again for the last time, of 1\n",
		" 1 sent, receiver not known: not received\n",
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
		Verdict: report.Consistent, Arrived: 50, Divided: 25, Resent: 1,
	}
	for of, shown := range map[*[]messages.Percentile]*[]report.Percentile{
		&p.Transfer: &want.Transfer, &p.Arrival: &want.Network, &p.Waited: &want.Waited,
		&p.Kernel: &want.Kernel, &p.Program: &want.Program, &p.Resending: &want.Resending,
	} {
		for _, d := range *of {
			*shown = append(*shown, report.Percentile{
				P: d.Percent, Lo_cycles: d.Lo_cycles, Hi_cycles: d.Hi_cycles,
			})
		}
	}
	if diff := cmp.Diff([]report.Talk{want}, shown.Messages.Talks); diff != "" {
		t.Error(diff)
	}
	services := []report.Service{
		{Name: "client", Node: "A", Hosts: []string{}},
		{Name: "server", Node: "B", Port: 80, Hosts: []string{simrun.ServerName}},
	}
	if diff := cmp.Diff(services, shown.Messages.Services); diff != "" {
		t.Error(diff)
	}
}

// A run without tuples is exported with its messages.
func TestExportMessages(t *testing.T) {
	run, _ := capturedRun(t)
	spans := filepath.Join(t.TempDir(), "spans.json")
	for _, c := range [][2][]string{
		{{"--as", "perfetto"}, {"trace.perfetto-trace: all 99 captured messages"}},
		{{"--as", "csv"}, {"messages.csv: 99 of 100 messages: both ends are known"}},
		{{"--otlp", spans}, {spans + ": 99 spans of 0 tuples and of all 99 captured messages"}},
		{{"--otlp", spans, "--slowest", "3"}, {"3 spans of", "the 3 slowest of 99 captured"}},
	} {
		args := append([]string{"export", run}, c[0]...)
		code, stdout, stderr := commandtest.Run(Commands(), args...)
		for _, want := range c[1] {
			if code != 0 || !strings.Contains(stdout, want) {
				t.Errorf("%v: exit code %d, no %q in\n%s%s", c[0], code, want, stdout, stderr)
			}
		}
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
