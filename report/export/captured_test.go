package export

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// capturedRun makes a run of simrun.Captured. It returns the run and the messages that package
// messages finds in it.
func capturedRun(t *testing.T) (*runs.Directory, []messages.Timed, *toldRows) {
	t.Helper()
	parent := t.TempDir()
	if _, err := simrun.Captured(seed.Random(t), parent, "captured"); err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(filepath.Join(parent, "captured"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	var all []messages.Timed
	if _, err := messages.Of(dir, messages.Options{Reference: "B",
		Each: func(m *messages.Timed) error {
			all = append(all, *m)
			return nil
		}}); err != nil || len(all) != 99 {
		t.Fatalf("%d messages, %v", len(all), err)
	}
	return dir, all, tell(t, dir, analysis.Options{Reference: "B"})
}

// aboutOf is what an export should say about a message.
func aboutOf(t *testing.T, m *messages.Timed, r analysis.Reference) map[string]string {
	t.Helper()
	at, err := m.Sent()
	if err != nil || m.Unknown != nil {
		t.Fatal(err, m.Unknown)
	}
	about := map[string]string{
		"kind": "message", "bytes": "50", "verdict": "consistent", "from_node": "A",
		"to_node": "B", "from_program": "client", "to_program": "server", "from_thread": "3",
		"to_thread": "3", "from_socket": "7", "to_socket": "7", "from_address": "10.0.0.1:1000",
		"to_address":     "10.0.0.2:80",
		"lo_cycles":      fmt.Sprint(m.Transfer.Lo),
		"hi_cycles":      fmt.Sprint(m.Transfer.Hi),
		"bound_cycles":   fmt.Sprint((m.Transfer.Hi - m.Transfer.Lo + 1) / 2),
		"from_lo_cycles": fmt.Sprint(at.Lo),
		"from_hi_cycles": fmt.Sprint(at.Hi),
		"seconds": r.Seconds(analysis.Interval{Lo_cycles: m.Transfer.Lo,
			Hi_cycles: m.Transfer.Hi}),
	}
	p := m.Parts
	for name, part := range map[string]struct {
		known bool
		d     tscratio.Duration
	}{"network": {p.Arrived, p.Network}, "waited": {p.Arrived, p.Waited},
		"kernel": {p.Divided, p.Kernel}, "program": {p.Divided, p.Program},
		"resending": {p.Resent, p.Resending}} {
		if part.known {
			about[name+"_lo_cycles"] = fmt.Sprint(part.d.Lo)
			about[name+"_hi_cycles"] = fmt.Sprint(part.d.Hi)
		}
	}
	return about
}

func sortedMaps(all []map[string]string) []map[string]string {
	slices.SortFunc(all, func(a, b map[string]string) int {
		return strings.Compare(a["from_lo_cycles"], b["from_lo_cycles"])
	})
	return all
}

// Every captured message is a slice of exactly its length between its two programs, with everything
// that is known about it. A flow leads from the program that sent it to the one that received it.
func TestTraceHasMessages(t *testing.T) {
	dir, all, told := capturedRun(t)
	for _, slowest := range []int{0, 7} {
		files, _, err := Run(t.Context(), dir, analysis.Options{Reference: "B", Slowest: slowest},
			Perfetto)
		if err != nil {
			t.Fatal(err)
		}
		trace, err := os.ReadFile(filepath.Join(dir.Path, "exports", traceFile))
		if err != nil {
			t.Fatal(err)
		}
		wanted, title := all, "all 99 captured messages of which both ends are known"
		if slowest > 0 {
			wanted = slices.Clone(all)
			slices.SortStableFunc(wanted, func(a, b messages.Timed) int {
				return int(b.Transfer.Lo - a.Transfer.Lo)
			})
			wanted, title = wanted[:slowest], "the 7 slowest of 99 captured messages"
		}
		drawn := drawnOf(t, trace)
		if files[0].Note != title || !strings.Contains(drawn.title, title) {
			t.Errorf("the note is %q, the title %q, want %q", files[0].Note, drawn.title, title)
		}
		var want, got []map[string]string
		lengths, ends := map[string]uint64{}, map[uint64][2]string{}
		for i := range wanted {
			about := aboutOf(t, &wanted[i], told.answer.Reference)
			want = append(want, about)
			lengths[about["from_lo_cycles"]] = uint64(nsOf(wanted[i].Transfer.Lo,
				wanted[i].Transfer.Hi, told.answer.Reference))
		}
		first := ^uint64(0)
		flows := map[[2]string]int{}
		moments := map[uint64]int{} // slices that end there, without the instants at which they end
		for _, s := range drawn.slices {
			first = min(first, s.begin)
			if s.instant {
				if len(s.flows) != 1 {
					t.Fatalf("%+v", s)
				}
				end := ends[s.flows[0]]
				if strings.HasPrefix(s.name, "to ") {
					end[0] = s.track + " " + s.name
				} else {
					end[1] = s.track + " " + s.name
					moments[s.begin]--
				}
				ends[s.flows[0]] = end
				continue
			}
			if s.track != "A client → B server" || s.name != "50 bytes" ||
				s.length != lengths[s.about["from_lo_cycles"]] {
				t.Errorf("%+v, want a length of %d", s, lengths[s.about["from_lo_cycles"]])
			}
			got = append(got, s.about)
			moments[s.begin+s.length]++
		}
		for at, n := range moments {
			if n != 0 {
				t.Errorf("at %d, %d slices more end than messages are received", at, n)
			}
		}
		for _, end := range ends {
			flows[end]++
		}
		if diff := cmp.Diff(sortedMaps(want), sortedMaps(got)); diff != "" || first != 0 {
			t.Errorf("the trace begins at %d, %s", first, diff)
		}
		if diff := cmp.Diff(map[[2]string]int{
			{"A/client to server", "B/server from client"}: len(wanted),
		}, flows); diff != "" {
			t.Error(diff)
		}
	}
}

// Every captured message is a trace of one span of exactly its length, in the resource of the
// program that sent it. Each export gives the same ids.
func TestOTLPHasMessages(t *testing.T) {
	dir, all, told := capturedRun(t)
	_, says, spans := exportRequests(t, dir, analysis.Options{Reference: "B"})
	if says.Messages != "all 99 captured messages of which both ends are known" {
		t.Errorf("%+v", says)
	}
	var want, got []map[string]string
	begun := map[string][2]int64{}
	for i := range all {
		about := aboutOf(t, &all[i], told.answer.Reference)
		at, _ := all[i].Sent()
		begin := told.clock.At_ns(at)
		begun[about["from_lo_cycles"]] = [2]int64{begin, begin + nsOf(all[i].Transfer.Lo,
			all[i].Transfer.Hi, told.answer.Reference)}
		earliest, latest, _ := told.clock.UTC(at)
		about["utc_bound_ns"] = fmt.Sprint(max(begin-earliest, latest-begin))
		about["peer.service"] = "server"
		want = append(want, about)
	}
	traces := map[string]bool{}
	for _, s := range spans {
		about := map[string]string{}
		for k, v := range s.about {
			about[strings.TrimPrefix(k, "cloudprofiler.")] = v
		}
		got = append(got, about)
		traces[s.TraceID] = true
		if times := [2]int64{s.Begin_ns, s.End_ns}; s.Name != "client → server" || s.Kind != 4 ||
			s.ParentSpanID != "" || times != begun[about["from_lo_cycles"]] ||
			s.resource["service.name"] != "client" || s.resource["host.name"] != "A" ||
			s.resource["service.namespace"] != "captured" {
			t.Errorf("%+v, want %v", s, begun[about["from_lo_cycles"]])
		}
	}
	if diff := cmp.Diff(sortedMaps(want), sortedMaps(got)); diff != "" || len(traces) != 99 {
		t.Errorf("%d traces, %s", len(traces), diff)
	}
	_, says, again := exportRequests(t, dir, analysis.Options{Reference: "B", Slowest: 5})
	if len(again) != 5 || says.Messages != "the 5 slowest of 99 captured messages" {
		t.Errorf("%d of %+v", len(again), says)
	}
	for _, id := range slices.Collect(maps.Keys(again)) {
		if spans[id] == nil {
			t.Errorf("another export gives the id %s", id)
		}
	}
}

// Flags choose a part of a run by tuples, so such a part has no messages.
func TestChosenPartHasNoMessages(t *testing.T) {
	dir, _, _ := capturedRun(t)
	for _, f := range []analysis.Filter{{Nodes: []string{"a"}}, {Channels: []string{"c"}},
		{IDs: [][2]uint64{{1, 2}}}, {To_cycles: 1}, {To_utc_ns: 1}} {
		found, err := eachCaptured(dir, &analysis.Options{Filter: f}, "B", nil)
		if found != nil || err != nil {
			t.Errorf("%+v: %+v, %v", f, found, err)
		}
	}
}

// Messages that cannot be told apart, such as the pieces of one large call, have different ids.
func TestMessagesThatLookAlike(t *testing.T) {
	w := otlp{run: &runs.Run{Name: "run"}}
	m := &transfer{Timed: messages.Timed{Match: messages.Match{From: &messages.Program{},
		Send: messages.Call{Log: &messages.Log{}, By: &messages.Thread{}}}}}
	if a, b := w.messageID(m), w.messageID(m); a == b {
		t.Error("two messages have the same id")
	}
}
