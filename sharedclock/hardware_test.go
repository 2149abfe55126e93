package sharedclock

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// A driver may offer several ways to read the clock. With each of them, the result is true: at some
// moment between the two values of CLOCK_REALTIME, the interface's clock showed the value that was
// read.
func TestStampClockHoldsTheTruth(t *testing.T) {
	r := seed.Random(t)
	for range 1000 {
		m := newMachine(r)
		m.ways = way(r.IntN(3))
		s := &Stamps{phc: newPHC(m)}
		clock := s.Clock(m.clock(), StampSettings{Error: 100 * time.Nanosecond, Wander_ppm: 5})
		if clock.Error_ns != 101 || clock.Wander_ppb != 5000 {
			t.Fatalf("error %d ns, wander %d ppb", clock.Error_ns, clock.Wander_ppb)
		}
		before_ns, _, after_ns, ok := clock.Read()
		truth := m.realtime_ns + int64(m.rate*m.last_ns)
		if !ok || before_ns > truth || truth > after_ns {
			t.Fatalf("way %d: in [%d, %d], in truth %d, %t", m.ways, before_ns, after_ns, truth, ok)
		}
	}
	m := newMachine(r)
	p := newPHC(m)
	m.err = unix.EIO
	if _, _, _, ok := p.readBetween(m.realtime); ok {
		t.Error("a broken device is read")
	}
	if _, _, _, ok := (&phc{device: m, way: broken}).readBetween(m.realtime); ok {
		t.Error("a device that was broken from the beginning is read")
	}
}

// The answers in this test have the bytes that the kernel returns for ETHTOOL_GET_TS_INFO
// (linux/ethtool.h) and SIOCGHWTSTAMP (linux/net_tstamp.h).
func TestWhatAnInterfaceOffers(t *testing.T) {
	const (
		igb      = "41000000" + "7f000000" + "00000000" + "03000000" + zeros + "03000000" + zeros
		virtio   = "41000000" + "1a000000" + "ffffffff" + "00000000" + zeros + "00000000" + zeros
		noPHC    = "41000000" + "7f000000" + "ffffffff" + "03000000" + zeros + "03000000" + zeros
		receives = "41000000" + "5c000000" + "00000000" + "00000000" + zeros + "02000000" + zeros

		all     = "00000000" + "01000000" + "01000000"
		ptpOnly = "00000000" + "01000000" + "0c000000"
		off     = "00000000" + "00000000" + "00000000"
	)
	for name, test := range map[string]struct{ info, config, want string }{
		"an interface that stamps":      {igb, all, ""},
		"one whose driver does not say": {igb, "", ""},
		"one that stamps only PTP":      {igb, ptpOnly, "hwstamp_ctl -i eth0 -t 1 -r 1"},
		"one that is off":               {igb, off, "hwstamp_ctl -i eth0 -t 1 -r 1"},
		"a virtual interface":           {virtio, "", "its driver takes none"},
		"one without a clock":           {noPHC, all, "no PTP clock"},
		"one that stamps what it gets":  {receives, all, "its driver takes none"},
	} {
		var a stampAbilities
		a.info = new(unix.EthtoolTsInfo)
		decode(t, test.info, a.info)
		if test.config != "" {
			a.config = new(unix.HwTstampConfig)
			decode(t, test.config, a.config)
		}
		err := a.whyUnusable("eth0")
		if test.want == "" && err != nil || test.want != "" &&
			(!errors.Is(err, ErrSource) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

const zeros = "000000000000000000000000"

func decode(t *testing.T, text string, into any) {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := binary.Decode(b, binary.LittleEndian, into); err != nil || n != len(b) {
		t.Fatalf("%d of %d bytes decoded: %v", n, len(b), err)
	}
}

func TestStampsAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"nothere0": "no such network interface", "lo": "made by software",
	} {
		if s, err := OpenStamps(name); err == nil ||
			!strings.Contains(err.Error(), `use hardware stamps of "`+name+`": `) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", name, s, err, want)
		}
	}
	for _, s := range []StampSettings{{Error: -1}, {Error: time.Second}, {Wander_ppm: -1},
		{Wander_ppm: 1e6}} {
		if s.Validate() == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}
