package answers

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// lostUpdate are the states of examples/race.
var lostUpdate = []string{
	"--state", `balance = 0 then event.point == "write" ? seen[event.node] + event.value : balance`,
	"--state", `seen by node = 0 then event.point == "read" ? balance : seen[event.node]`,
	"--state", `deposited = 0 then event.point == "write" ? deposited + event.value : deposited`,
}

// race makes a run of three nodes. Each node reads a balance, adds a deposit, and writes the sum
// back. In the run no deposit was lost, but the bounds do not prove that.
func race(t *testing.T, dir string, apart uint64) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(24, 3))
	nodes := simrun.Nodes(rng, 3)
	var channels []simrun.Channel
	at := uint64(3 * simrun.Hz)
	read, write := make([][]simrun.Record, 3), make([][]simrun.Record, 3)
	for i := range 30 {
		n := i % 3
		at += apart
		read[n] = append(read[n], simrun.Record{Time: at, ID: uint64(10 + i)})
		at += apart
		write[n] = append(write[n], simrun.Record{Time: at, ID: uint64(10 + i)})
		at += 40_000
	}
	for n := range nodes {
		channels = append(channels,
			simrun.Channel{Node: n, Name: "teller/read", Records: read[n], Process: n},
			simrun.Channel{Node: n, Name: "teller/write", Records: write[n], Process: n})
	}
	// The two deposits of one pair are so near that their order is not proven.
	i := len(read[1]) / 2
	write[0][i].Time = read[1][i].Time - 200
	if err := simrun.Write(rng, dir, "race", nodes, channels); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "race")
}

func TestReplayFindsThePlantedRace(t *testing.T) {
	dir := race(t, t.TempDir(), 20_000)
	code, out, errs := cprof(append([]string{"replay", dir, "--find", "balance < deposited"},
		lostUpdate...)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	for _, want := range []string{"60 of 60 events permuted", "holds             after ",
		"balance = ", "free pairs        1 could", "bounds broken     0"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	code, out, _ = cprof(append([]string{"replay", dir, "--json", "--find",
		"balance > deposited"}, lostUpdate...)...)
	var answer struct {
		Found struct {
			Holds  bool
			Places int
		}
		Free string
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != 0 ||
		answer.Found.Holds || answer.Free != "1" || answer.Found.Places < 60 {
		t.Errorf("%+v, %v, exit code %d", answer, err, code)
	}
}

func TestReplayWritesPagesAndTraces(t *testing.T) {
	dir := race(t, t.TempDir(), 20_000)
	code, out, errs := cprof(append([]string{"replay", dir, "--page", "--find",
		"balance < deposited"}, lostUpdate...)...)
	page := filepath.Join(dir, "exports", "replay.html")
	if out != page+"\n" || !strings.Contains(errs, "holds             after ") {
		t.Errorf("it prints %q and %q", out, errs)
	}
	if text, err := os.ReadFile(page); code != 0 || err != nil ||
		!bytes.Contains(text, []byte(`"question":"balance \u003c deposited"`)) {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	for _, form := range []string{"thesis", "shiviz"} {
		file := filepath.Join(dir, form+".txt")
		if code, out, errs := cprof("replay", dir, "--write", form, "-o", file); code != 0 {
			t.Fatalf("%s: exit code %d: %s%s", form, code, out, errs)
		}
		code, out, errs := cprof("replay", file, "--orders", "1")
		if code != 0 || !strings.Contains(out, "replayed          all 60 events") ||
			!strings.Contains(out, "\n   60  ") {
			t.Errorf("%s: exit code %d: %s%s", form, code, out, errs)
		}
	}
	// With an epsilon of 1 ms, many more pairs are free.
	_, out, _ = cprof("replay", dir, "--epsilon", "1ms")
	if strings.Contains(out, "free pairs        1 could") {
		t.Errorf("with an epsilon of 1 ms:\n%s", out)
	}
}

// UTC chooses a part of a run.
func TestReplayChoosesByUTC(t *testing.T) {
	const apart = 20_000_000
	dir := race(t, t.TempDir(), apart)
	events := func(from, to string) (n int) {
		t.Helper()
		code, out, errs := cprof("replay", dir, "--json", "--from", from, "--to", to)
		var answer struct{ Events int }
		if err := json.Unmarshal([]byte(out), &answer); err != nil || code != 0 {
			t.Fatalf("exit code %d, %v: %s", code, err, errs)
		}
		return answer.Events
	}
	// The counter of the simulation began in 1970. The error of the frequency makes a moment
	// uncertain by a fifth of the time between two events.
	utc := func(event int) string {
		at_s := 3 + float64(event)*apart/simrun.Hz
		return time.Unix(0, int64(at_s*1e9)).UTC().Format(time.RFC3339Nano)
	}
	all, half := events(utc(0), utc(61)), events(utc(0), utc(30))
	if all != 60 || half < 28 || half > 32 {
		t.Errorf("%d events, %d of the first half", all, half)
	}
	code, _, errs := cprof("replay", dir, "--from", utc(100))
	if code == 0 || !strings.Contains(errs, "no events are chosen") {
		t.Errorf("after the run: exit code %d, %s", code, errs)
	}
}

// A message may be received so long before it was sent that no bound explains this. Such a message
// is counted, named and marked on the page, however long the time between receipt and sending is.
func TestReplayMarksMessagesReceivedTooEarly(t *testing.T) {
	rng := rand.New(rand.NewPCG(24, 4))
	nodes := simrun.Nodes(rng, 2)
	var sent, received []simrun.Record
	for i := range uint64(40) {
		at := 3*simrun.Hz + i*1_000_000
		sent = append(sent, simrun.Record{Time: at, ID: i})
		received = append(received, simrun.Record{Time: at + 50_000, ID: i})
	}
	received[20].Time -= 10_000_000
	simrun.InOrder(received)
	dir := t.TempDir()
	if err := simrun.Write(rng, dir, "early", nodes, []simrun.Channel{
		{Node: 0, Name: "a/send", Records: sent}, {Node: 1, Name: "b/recv", Records: received},
	}); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "early")
	want := "tuple 20 was at a/send on A surely after it was at b/recv on B"
	code, out, errs := cprof("replay", dir)
	if code != 3 || !strings.Contains(out, "bounds broken     1\n") ||
		!strings.Contains(errs, "1 message received before sent") ||
		!strings.Contains(errs, want) || !strings.Contains(errs, "39 tuples passed a/send "+
		"before b/recv, and 1 after it: messages are taken to go from a/send to b/recv") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if code, out, errs := cprof("replay", dir, "--only-edges"); code != 0 ||
		!strings.Contains(out, "bounds broken     0\n") {
		t.Errorf("without edges: exit code %d: %s%s", code, out, errs)
	}
	if code, _, errs = cprof("replay", dir, "--page"); code != 3 {
		t.Errorf("exit code %d: %s", code, errs)
	}
	text, err := os.ReadFile(filepath.Join(dir, "exports", "replay.html"))
	if err != nil || !bytes.Contains(text, []byte(want)) {
		t.Errorf("the page does not say it: %v", err)
	}
}

// Where branches run side by side, one of them is nearly always quicker. The replay must not
// conclude that a message goes from the quicker one to the other.
func TestReplayTakesNoMessageBetweenBranches(t *testing.T) {
	rng := rand.New(rand.NewPCG(24, 5))
	var channels []simrun.Channel
	for n, name := range []string{"source/send", "quick/recv", "slow/recv"} {
		c := simrun.Channel{Node: n, Name: name}
		for i := range uint64(40) {
			at := 3*simrun.Hz + i*10_000_000 + uint64(n)*1_000_000
			if n == 1 && i == 20 {
				at += 2_000_000
			}
			c.Records = append(c.Records, simrun.Record{Time: at, ID: i})
		}
		channels = append(channels, c)
	}
	dir := t.TempDir()
	if err := simrun.Write(rng, dir, "fork", simrun.Nodes(rng, 3), channels); err != nil {
		t.Fatal(err)
	}
	// If clocks may differ by 1 s, each event of one branch is free with all 40 events of the other
	// branch. The event with number i of a branch is after the first i+1 events of the source.
	code, out, errs := cprof("replay", filepath.Join(dir, "fork"), "--epsilon", "1s")
	if code != 0 || !strings.Contains(out, "free pairs        3,160 could") { // 40·40 + 2·(40·39/2)
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

// Links order events: a renamed tuple is the same tuple, and a window is written only after all
// tuples of which it was made have been sent.
func TestReplayTakesLinks(t *testing.T) {
	rng := rand.New(rand.NewPCG(24, 6))
	at := func(i, n uint64) uint64 { return 3*simrun.Hz + i*10_000_000 + n*1_000_000 }
	channels := []simrun.Channel{{Node: 0, Name: "source/send"}, {Node: 1, Name: "parse/recv"},
		{Node: 1, Name: "parse/link", Handler: "link"},
		{Node: 2, Name: "count/recv"}, {Node: 2, Name: "count/link", Handler: "link"},
		{Node: 3, Name: "store/write"}}
	add := func(c int, r simrun.Record) { channels[c].Records = append(channels[c].Records, r) }
	for i := range uint64(40) {
		renamed, window := 1000+i, 5000+i/4
		add(0, simrun.Record{Time: at(i, 0), ID: i})
		add(1, simrun.Record{Time: at(i, 1), ID: i})
		add(2, simrun.Record{Time: at(i, 2), ID: i, Child: renamed, IsLink: true})
		add(3, simrun.Record{Time: at(i, 4), ID: renamed})
		add(4, simrun.Record{Time: at(i, 5), ID: renamed, Child: window, IsLink: true})
		if i%4 == 3 {
			add(5, simrun.Record{Time: at(i, 6), ID: window})
		}
	}
	dir := t.TempDir()
	if err := simrun.Write(rng, dir, "links", simrun.Nodes(rng, 4), channels); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "links")
	code, out, errs := cprof("replay", dir, "--epsilon", "1s")
	// Sending tuple i is before receiving any tuple with number i or more. So of the 40·40 pairs of
	// these events, 40·39/2 are free. Of the 40·10 pairs with a write, 180 are free.
	want := "free pairs        2,880 could" // 3·40·39/2 + 3·180
	if code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit code %d, want %q: %s%s", code, want, out, errs)
	}
}

// A captured message orders two events: what the client logs before it sends is before what the
// server logs after it receives. No id occurs at both programs.
func TestReplayTakesCapturedMessages(t *testing.T) {
	logged := []simrun.Channel{{Node: 0, Name: "client/ask"}, {Node: 1, Name: "server/take"}}
	for i := range uint64(99) {
		at := simrun.Hz + (i+1)*100_000
		logged[0].Records = append(logged[0].Records, simrun.Record{Time: at - 100, ID: i})
		logged[1].Records = append(logged[1].Records, simrun.Record{
			Time: at + transfer + 100, ID: 1000 + i})
	}
	dir, _ := capturedRun(t, logged...)
	// If clocks may differ by 1 s, time orders nothing. Each event of the server is then free with
	// every later event of the client, and with no other event.
	code, out, errs := cprof("replay", dir, "--epsilon", "1s", "--json")
	var answer struct {
		Summary struct{ Events, Free, Broken string }
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s", code, err, errs)
	}
	if s := answer.Summary; s.Events != "198" || s.Free != "4851" || s.Broken != "0" {
		t.Errorf("%+v", s) // 4851 = 99·98/2
	}
}

func TestReplayUsage(t *testing.T) {
	dir := race(t, t.TempDir(), 20_000)
	for _, c := range []struct{ args, want string }{
		{"--find balanse<0", "undeclared reference to 'balanse'"},
		{"--state x", "it is for --find"},
		{"--write dot", "give thesis or shiviz"},
		{"--page --write thesis", "choose one"},
		{"--events 0", "give 1 to"},
		{"--page --events 6000", "a page shows at most"},
		{"-o x", "it is for --page or --write"},
		{"--orders -1", "give 0 or more"},
	} {
		code, _, errs := cprof(append([]string{"replay", dir}, strings.Fields(c.args)...)...)
		if code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %q, want %q", c.args, code, errs, c.want)
		}
	}
}
