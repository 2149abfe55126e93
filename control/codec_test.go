package control

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// examples contains one message of each kind. No two fields have the same value.
var examples = []Message{
	&Hello{Name: "node-a", Software: "tsc-client 1"},
	&Challenge{Nonce: "00ff"},
	&Register{
		Nonce: "n", Name: "a", Instance: "i", Epoch: "e", Nominal_hz: 2_600_000_001,
		Quantum_cycles: 26, CoreSlack_cycles: 170, Number: 3, Virtual: true, Machine: "m", Cores: 4,
		Capabilities: []string{CanProbe, CanRun}, ProbeAddress: "192.0.2.1:4000", Software: "s",
		Facts: json.RawMessage(`{"cpu":"x"}`), Frequency: exampleFrequency, OpenRun: "r",
		Graph: "a 192.0.2.1:4001 k",
	},
	&Welcome{Server: "s", Heartbeat_ns: 1e9, Dead_ns: 4e9, Generation: 1<<63 + 1},
	&Refusal{Code: NameTaken, Text: "no"},
	&Ping{Counter_cycles: 1<<63 + 7},
	&Pong{},
	&Leave{Why: "update"},
	&Done{},
	&LoadRequest{Over_ns: 20e6},
	&Load{
		Over_ns: 21e6, Busy_ppm: 500_000, ReceivedBytes: 1 << 60, SentBytes: 2,
		Unknown: []string{"cpu: none"},
	},
	&Probe{
		Target: Target{
			Peer: "b", PeerEpoch: "e2", Address: "[2001:db8::1]:5", Key: []byte{9},
			Nominal_hz: 1e9, Quantum_cycles: 2, CoreSlack_cycles: 3,
		},
		Manner: Manner{Exchanges: 5, Timeout_ns: 6, Attempts: 7, UserStamps: true, Spin_ns: 8},
		Trains: 9, Gap_ns: 10, Limit_ns: 11,
	},
	&Trains{
		Report: 1, Peer: "b", PeerEpoch: "e2", Epoch: "e", Lost: 2, Dropped: 3, Error: "no answer",
		Trains: exampleTrains, SharedClock: "lies",
		Meetings: []Meeting{{Train: 1, OwnLo: 4, OwnHi: 5, PeerLo: 1<<63 + 6, PeerHi: 1<<63 + 7}},
	},
	&Ack{Report: 1<<63 + 2},
	&Probing{
		Manner: Manner{Exchanges: 1, Timeout_ns: 2, Attempts: 3},
		Targets: []Target{
			{Peer: "c", PeerEpoch: "e3", Address: "192.0.2.3:1", Nominal_hz: 1e9},
		},
		Neighbours: true, Period_ns: 4,
	},
	&Graph{Degree: 7, Issuers: [][]byte{{1}, {2}}, Signature: []byte{3}, Contacts: []string{"c"}},
	&Neighbours{Names: []string{"b", "c"}, Connected: []string{"192.0.2.7"},
		Blamed: []Blamed{{Name: "d", Times: 8}}},
	&Run{Name: "tuesday", Close: true, Collectors: []string{"alpha"}},
	&RunState{
		Name: "tuesday", Closed: true, Channels: 2, Missing: []string{"x"},
		Frequency: exampleFrequency,
	},
	&Table{Generation: 4, Text: []byte("version: 1\n")},
	&TableState{Generation: 4, Channels: 5, Error: "bad", Matched: []int{3, 0, 2}},
	&ListFiles{Run: "tuesday"},
	&Files{Run: "tuesday", Files: []File{{"logs/a.cplog", 7}}, More: true},
	&ReadFile{Run: "tuesday", Path: "logs/a.cplog", Offset: 1, Bytes: 2},
	&Chunk{Path: "logs/a.cplog", Offset: 1, Size: 3, Data: []byte{0, 255}},
	&Snapshot{Channels: "a*", Reason: "slow"},
	&SnapshotState{Channels: 1, Records: 1<<63 + 3, Error: "e"},
	&Ask{What: "nodes", Argument: json.RawMessage(`{"a":1}`)},
	&Answer{Result: json.RawMessage(`[1,2]`)},
	&ProbeSecrets{Secrets: []ProbeSecret{
		{1<<63 + 4, make([]byte, SecretBytes)},
		{5, make([]byte, SecretBytes)},
	}},
	&Watch{Order: 1<<63 + 5, For_ns: 2e9, Events: 800},
	&Sample{
		Stream: "s", Number: 1<<63 + 6, Order: 1<<63 + 7, Since_ns: -8, Epoch: "e",
		Began_cycles: 1<<63 + 9, Until_cycles: 1<<63 + 10,
		Made_cycles: 1<<63 + 17, Bits: 11, Lost: 1<<63 + 12, Left: 13,
		Channels: exampleSampled,
	},
}

var exampleTrains = []Train{
	{
		KernelStamps: 3,
		Exchanges: []tscratio.Exchange{{
			Sent:     tscratio.Interval{Lo: 1000, Hi: 1001},
			Received: tscratio.Interval{Lo: 50, Hi: 52},
			Answered: tscratio.Interval{Lo: 60, Hi: 60},
			Returned: tscratio.Interval{Lo: 1100, Hi: 1107},
		}},
		Arrivals: []Arrival{
			{Sent: tscratio.Interval{Lo: 1200, Hi: 1200},
				Received: tscratio.Interval{Lo: 1<<64 - 2, Hi: 1<<64 - 1}},
		},
	},
	{},
}

func TestEveryKindHasAnExample(t *testing.T) {
	seen := map[Kind]bool{}
	for _, m := range examples {
		seen[m.Kind()] = true
	}
	for k := range kinds {
		if !seen[k] {
			t.Errorf("%s has no example", k)
		}
		if got := kinds[k].make().Kind(); got != k {
			t.Errorf("%s makes %s", k, got)
		}
	}
}

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	for _, m := range examples {
		frames, err := Encode(m, 1<<63+5)
		if err != nil {
			t.Fatal(err)
		}
		got, request, err := Decode(frames)
		if err != nil {
			t.Errorf("%s: %v", m.Kind(), err)
			continue
		}
		if d := cmp.Diff(m, got); d != "" || request != 1<<63+5 {
			t.Errorf("%s, request %d, comes back as\n%s", m.Kind(), request, d)
		}
	}
}

// No field of an example is zero. If Encode or Decode left out a field, the field would be zero
// after decoding. The tests notice that only if the field was not zero before.
func TestExamplesSetEveryField(t *testing.T) {
	for _, m := range examples {
		if m.Kind() == KindProbing {
			continue // Probe has the same Manner
		}
		if _, err := Encode(m, 1); err != nil { // Encode sets a chunk's checksum
			t.Fatal(err)
		}
		v := reflect.ValueOf(m).Elem()
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s: field %s is zero", m.Kind(), v.Type().Field(i).Name)
			}
		}
	}
}

func TestBytesOfMessages(t *testing.T) {
	const header = "43504354" + "02" + "02" // magic, version
	const request = "0000000000000102"
	tests := []struct {
		m    Message
		want []string // the frames; the header in hex
	}{
		{&Hello{Name: "a", Software: "s"},
			[]string{header + "0001" + request, `{"name":"a","software":"s"}`}},
		{&Refusal{WrongVersion, "no"},
			[]string{header + "0005" + request, `{"code":2,"text":"no"}`}},
		{&Ping{1<<64 - 1},
			[]string{header + "0006" + request, `{"counter_cycles":"18446744073709551615"}`}},
		{&Run{Name: "r"},
			[]string{header + "0010" + request, `{"name":"r"}`}},
		{&Table{Generation: 3, Text: []byte("x")},
			[]string{header + "0012" + request, `{"generation":"3"}`, "x"}},
		{&Chunk{Path: "a", Size: 9, Data: []byte("123456789")}, // the check value of CRC-32C
			[]string{header + "0017" + request,
				`{"path":"a","offset":0,"size":9,"crc32c":3808858755}`, "123456789"}},
	}
	for _, test := range tests {
		frames, err := Encode(test.m, 0x102)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{hex.EncodeToString(frames[0])}
		for _, f := range frames[1:] {
			got = append(got, string(f))
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s:\n%s", test.m.Kind(), d)
		}
	}
}

func TestBytesOfTrains(t *testing.T) {
	m := &Trains{Trains: exampleTrains}
	want := "02" + // number of trains
		"03" + "01" + // number of kernel stamps, number of exchanges
		"d00f" + "01" + // sent: +1000, width 1
		"64" + "02" + // received: +50, width 2
		"14" + "00" + // answered: +10
		"c801" + "07" + // number of arrivals
		"01" + // arrivals
		"c801" + "00" + // sent: +100
		"7b" + "01" + // received: -62 modulo 2^64, width 1
		"00" + "00" + "00"
	if got := hex.EncodeToString(m.bulk()); got != want {
		t.Errorf("trains are\n%s, want\n%s", got, want)
	}
}

func TestTrainsThatCannotBe(t *testing.T) {
	for name, text := range map[string]string{
		"empty":                     "",
		"end in a train":            "01",
		"end in a stamp":            "01" + "00" + "01" + "0000000000000000",
		"more trains than bytes":    "ffffff7f",
		"exchanges beyond the end":  "01" + "00" + "7f" + "00000000",
		"a stamp beyond 64 bits":    "0100010101" + strings.Repeat("00", 6) + "00",
		"more kernel stamps than 4": "01" + "05" + "01" + strings.Repeat("00", 8) + "00",
		"bytes after the last":      "00" + "00",
		"a number beyond 64 bits":   "01" + strings.Repeat("ff", 10) + "00",
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := new(Trains).setBulk(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	frames := func(m Message) [][]byte {
		f, err := Encode(m, 1)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	with := func(m Message, i int, text string) [][]byte {
		f := frames(m)
		f[i] = []byte(text)
		return f
	}
	probe := string(frames(examples[11])[1])
	zeros := base64.StdEncoding.EncodeToString(make([]byte, SecretBytes))
	register := string(frames(examples[2])[1])
	registers := func(old, new string) [][]byte {
		return with(examples[2], 1, strings.Replace(register, old, new, 1))
	}
	probes := func(old, new string) [][]byte {
		return with(examples[11], 1, strings.Replace(probe, old, new, 1))
	}
	reads := func(text string) [][]byte {
		return with(&ReadFile{Run: "x", Path: "y", Bytes: 1}, 1, text)
	}
	empty := func(v Version, k Kind) [][]byte {
		return [][]byte{header{v, k, 1}.encode(), []byte("{}")}
	}
	for name, frames := range map[string][][]byte{
		"nothing":                         nil,
		"one frame":                       frames(&Pong{})[:1],
		"a short header":                  {[]byte("CPCT"), []byte("{}")},
		"a body that is a list":           with(&Pong{}, 1, "[]"),
		"a body that is null":             with(&Pong{}, 1, " null"),
		"two bodies":                      with(&Pong{}, 1, "{}{}"),
		"a body beyond UTF-8":             with(&Leave{}, 1, "{\"why\":\"\xff\"}"),
		"a missing third frame":           frames(&Table{})[:2],
		"a checksum that differs":         with(&Chunk{Path: "a", Data: []byte("x")}, 2, "y"),
		"an uncompressed answer":          with(&Answer{Result: json.RawMessage("1")}, 2, "1"),
		"a reversed frequency":            registers("2600000000000", "2600000003000"),
		"a run that leads out":            registers(`"open_run":"r"`, `"open_run":"../r"`),
		"software that steers a terminal": registers(`"software":"`, `"software":"\u001b[2J`),
		"a machine of two lines":          registers(`"machine":"`, `"machine":"a\nb`),
		"a very long epoch": registers(
			`"epoch":"`, `"epoch":"`+strings.Repeat("e", 300)),
		"very long facts": registers(
			`"facts":{`, `"facts":{"x":"`+strings.Repeat("x", 1<<16)+`",`),
		"a name with a slash":   with(&Run{Name: "x"}, 1, `{"name":"../x"}`),
		"a name with a newline": with(&Run{Name: "x"}, 1, `{"name":"a\nb"}`),
		"no name":               with(&Run{Name: "x"}, 1, `{}`),
		"a path that leaves":    reads(`{"run":"x","path":"a/../../b","bytes":1}`),
		"an absolute path":      reads(`{"run":"x","path":"/etc/passwd","bytes":1}`),
		"a negative offset":     reads(`{"run":"x","path":"y","bytes":1,"offset":-1}`),
		"a million exchanges":   probes(`"exchanges":5`, `"exchanges":1000000`),
		"no exchanges":          probes(`"exchanges":5`, `"exchanges":0`),
		"a long key":            probes(`"CQ=="`, `"`+strings.Repeat("QUFB", 40)+`"`),
		"an address of nobody":  probes(`[2001:db8::1]:5`, `0.0.0.0:5`),
		"no secrets":            with(examples[27], 1, `{"secrets":[]}`),
		"a secret without a number": with(
			examples[27], 1, `{"secrets":[{"number":"0","bytes":"`+zeros+`"}]}`),
		"a short secret": with(
			examples[27], 1, `{"secrets":[{"number":"1","bytes":"AAAA"}]}`),
	} {
		if m, _, err := Decode(frames); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %v %+v", name, err, m)
		}
	}
	if m, _, err := Decode(empty(Version{1, 0}, KindPong)); !errors.Is(err, ErrVersion) {
		t.Errorf("another version: %v %+v", err, m)
	}
	if m, _, err := Decode(empty(Current, 29)); !errors.Is(err, ErrKind) {
		t.Errorf("an unknown kind: %v %+v", err, m)
	}
	large := with(&Table{}, 2, strings.Repeat("x", MaxMessageBytes))
	if m, _, err := Decode(large); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v %+v", err, m)
	}
}

// A newer minor version may add fields to the body, frames to the message and bytes to the header.
// Decode skips these.
func TestDecodeSkipsWhatIsNew(t *testing.T) {
	h := append(header{Version{Current.Major, Current.Minor + 1}, KindRun, 7}.encode(), "more"...)
	body := []byte(`{"name":"r","new":{"x":[1]}}`)
	m, request, err := Decode([][]byte{h, body, []byte("a new frame")})
	if err != nil || request != 7 || m.(*Run).Name != "r" {
		t.Errorf("%+v, %d, %v", m, request, err)
	}
	old := [][]byte{
		header{Version{9, 9}, KindRefusal, 7}.encode(), []byte(`{"code":2,"text":"old"}`),
	}
	if _, _, err := Decode(old); err != nil {
		t.Errorf("a refusal of version 9.9: %v", err)
	}
}

func TestEncodeRefusesWhatNobodyTakes(t *testing.T) {
	for _, m := range []Message{
		&Run{}, &Table{Text: make([]byte, MaxMessageBytes)}, &Chunk{Path: "/x"}, &Refusal{},
	} {
		if _, err := Encode(m, 0); err == nil {
			t.Errorf("%s %.60v is sent", m.Kind(), m)
		}
	}
}

// The text of an error arrives at the other end, even if Cut cuts it in the middle of a character.
func TestRefusalsOfAnyTextArrive(t *testing.T) {
	for name, text := range map[string]string{
		"short":                        "no",
		"in the middle of a character": "x" + strings.Repeat("\U0001F550", MaxTextBytes),
		"no UTF-8":                     strings.Repeat("\xff", MaxTextBytes),
	} {
		frames, err := Encode(Refuse(Failed, text), 1)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m, _, err := Decode(frames)
		if err != nil || m.(*Refusal).Code != Failed ||
			m.(*Refusal).Text[0] != strings.ToValidUTF8(text, "?")[0] {
			t.Errorf("%s: %v %.60v", name, err, m)
		}
	}
}

// Decode refuses a small answer that would decompress to gigabytes, before it has decompressed all
// of it.
func TestAnswersThatExplodeAreRefused(t *testing.T) {
	var b bytes.Buffer
	bomb := Answer{Result: bytes.Repeat([]byte(" "), MaxAnswerBytes+1)}
	b.Write(bomb.bulk())
	if b.Len() > 1<<20 {
		t.Fatalf("the bomb has %d bytes", b.Len())
	}
	if err := new(Answer).setBulk(b.Bytes()); err == nil {
		t.Error("accepted")
	}
}

// FORMAT.md states the same numbers as the code.
func TestFormatDocumentHasTheNumbers(t *testing.T) {
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	section := func(title string) map[string]int {
		_, rest, ok := strings.Cut(string(text), "## "+title+"\n")
		if !ok {
			t.Fatalf("no section %q", title)
		}
		rest, _, _ = strings.Cut(rest, "\n## ")
		found := map[string]int{}
		row := regexp.MustCompile(`(?m)^\| (\d+) \| ([a-z ]+) \|`)
		for _, row := range row.FindAllStringSubmatch(rest, -1) {
			n, _ := strconv.Atoi(row[1])
			found[row[2]] = n
		}
		return found
	}
	want := map[string]int{}
	for k, v := range kinds {
		want[v.name] = int(k)
	}
	if d := cmp.Diff(want, section("Kinds")); d != "" {
		t.Errorf("kinds:\n%s", d)
	}
	want = map[string]int{}
	for c, name := range codes {
		want[name] = int(c)
	}
	if d := cmp.Diff(want, section("Codes of a refusal")); d != "" {
		t.Errorf("codes:\n%s", d)
	}
	for _, r := range Reasons {
		if !strings.Contains(string(text), "`"+string(r)+"`") {
			t.Errorf("reason %q is not described", r)
		}
	}
}

// Each message that Decode accepts can be encoded again, and decodes to the same message.
func FuzzDecode(f *testing.F) {
	for _, m := range examples {
		frames, err := Encode(m, 3)
		if err != nil {
			f.Fatal(err)
		}
		third := []byte(nil)
		if len(frames) > 2 {
			third = frames[2]
		}
		f.Add(frames[0], frames[1], third)
	}
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		m, request, err := Decode([][]byte{a, b, c})
		if err != nil {
			if m != nil {
				t.Errorf("a message comes with the error %v", err)
			}
			return
		}
		frames, err := Encode(m, request)
		if err != nil {
			t.Fatalf("an accepted message cannot be sent: %v", err)
		}
		again, request2, err := Decode(frames)
		if err != nil || request2 != request {
			t.Fatalf("a sent message is not accepted: %v", err)
		}
		x, _ := json.Marshal(m)
		y, _ := json.Marshal(again)
		if !bytes.Equal(x, y) {
			t.Errorf("%s\nbecomes\n%s", x, y)
		}
		one, ok := m.(bulkMessage)
		if ok && m.Kind() != KindAnswer && !bytes.Equal(one.bulk(), again.(bulkMessage).bulk()) {
			t.Errorf("third frame of %s changes", m.Kind())
		}
	})
}

func FuzzTrains(f *testing.F) {
	f.Add((&Trains{Trains: exampleTrains}).bulk())
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again Trains
		if m.setBulk(b) != nil {
			return
		}
		for _, train := range m.Trains {
			for _, e := range train.Exchanges {
				for _, i := range []tscratio.Interval{e.Sent, e.Received, e.Answered, e.Returned} {
					if i.Hi < i.Lo {
						t.Errorf("stamp %v", i)
					}
				}
			}
		}
		if err := again.setBulk(m.bulk()); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, again); d != "" {
			t.Error(d)
		}
	})
}
