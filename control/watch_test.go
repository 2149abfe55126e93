package control

import (
	"encoding/hex"
	"strings"
	"testing"
)

var exampleSampled = []SampledChannel{
	{
		Name: "a/start", Handler: "xoy x=1 y=2", Keeps: KeepsSome, Slack_cycles: 14, Events: 15,
		Dropped: 16, Sampled: []SampledEvent{{1<<64 - 2, 1000}, {3, 937}},
	},
	{Name: "a/end", Handler: "null", Keeps: KeepsNone},
}

func TestBytesOfSamples(t *testing.T) {
	want := "02" + // number of events in the first channel
		"fffffffffffffffe" + "d00f" + // id, reading +1000
		"0000000000000003" + "7d" + // id, reading -63
		"00" // number of events in the second channel
	if got := hex.EncodeToString(EncodeSampled(exampleSampled)); got != want {
		t.Errorf("events are\n%s, want\n%s", got, want)
	}
}

func TestSamplesThatCannotBe(t *testing.T) {
	event := strings.Repeat("00", 9)
	for name, text := range map[string]string{
		"empty":                   "",
		"one channel of two":      "00",
		"more events than bytes":  "ffffff7f" + "00",
		"more events than memory": "ffffffffffffffffff01" + "00",
		"an event without a time": "01" + strings.Repeat("00", 8) + "ff",
		"a second event is short": "02" + strings.Repeat("00", 8) + "8080" + event,
		"bytes after the last":    "00" + "00" + "00",
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := DecodeSampled(b, make([]SampledChannel, 2)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, change := range map[string]func(*Sample){
		"no number":           func(m *Sample) { m.Number = 0 },
		"negative bits":       func(m *Sample) { m.Bits = -1 },
		"too many bits":       func(m *Sample) { m.Bits = MaxSampleBits + 1 },
		"an unknown keeps":    func(m *Sample) { m.Channels[0].Keeps = "most" },
		"a name of two lines": func(m *Sample) { m.Channels[0].Name = "a\nb" },
		"endless slack":       func(m *Sample) { m.Channels[0].Slack_cycles = 1 << 33 },
		"no stream":           func(m *Sample) { m.Stream = "" },
		"too many events": func(m *Sample) {
			m.Channels[0].Sampled = make([]SampledEvent, MaxSampled+1)
		},
		"too many channels": func(m *Sample) {
			m.Channels = make([]SampledChannel, MaxSampledChannels+1)
		},
	} {
		m := &Sample{Stream: "s", Number: 1, Channels: []SampledChannel{{Keeps: KeepsAll}}}
		if err := m.check(); err != nil {
			t.Fatal(err)
		}
		if change(m); m.check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The server accepts the largest Sample from a node at any time.
func TestLargestSampleIsLetIn(t *testing.T) {
	line := strings.Repeat("n", MaxLineBytes/2)
	m := &Sample{Stream: "s", Number: 1}
	for range MaxSampledChannels {
		m.Channels = append(m.Channels, SampledChannel{Name: line, Keeps: KeepsSome,
			Sampled: make([]SampledEvent, MaxSampled/MaxSampledChannels)})
	}
	for i := range m.Channels[0].Sampled {
		m.Channels[0].Sampled[i].Reading = uint64(i%2) << 62 // the longest differences
	}
	frames, err := Encode(m, 0)
	if err != nil || size(frames) > maxSmall {
		t.Errorf("%d bytes, %v, want at most %d", size(frames), err, maxSmall)
	}
}

var exampleFrequency = &Frequency{
	Lo_millihz: 2_600_000_000_000, Hi_millihz: 2_600_000_002_000, Clock: "c",
}
