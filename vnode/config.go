package vnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// ErrConfig is returned for a configuration that does not describe a virtual node.
var ErrConfig = errors.New("not a virtual node")

// Version is the version of the configuration's format, which FORMAT.md describes.
const Version = 1

// Config describes a virtual node. FORMAT.md explains each field. DefaultConfig returns the
// configuration of a node with the same clocks as the machine.
type Config struct {
	Version  int            `json:"version"`
	Name     string         `json:"name"`
	Counter  CounterConfig  `json:"counter"`
	Realtime RealtimeConfig `json:"realtime"`
}

// CounterConfig describes a virtual counter.
type CounterConfig struct {
	Origin         uint64       `json:"origin,string"`
	Start          uint64       `json:"start,string"`
	Rate_2e40      int64        `json:"rate_2e40,string"`
	Quantum_cycles uint64       `json:"quantum_cycles,string"`
	Wander         WanderConfig `json:"wander"`
	Steps          []Step       `json:"steps,omitempty"`
}

// WanderConfig describes how a counter's rate moves around its mean.
type WanderConfig struct {
	Shape         Shape  `json:"shape"`
	Limit_2e40    int64  `json:"limit_2e40,string"`
	Window_cycles uint64 `json:"window_cycles,string"`
	SegmentLog2   int    `json:"segment_log2"`
	Segments      int    `json:"segments"`
	Period_cycles uint64 `json:"period_cycles,string"`
	Settle_cycles uint64 `json:"settle_cycles,string"`
	Seed          uint64 `json:"seed,string"`
}

// Shape is the way in which a rate wanders.
type Shape string

const (
	Steady      Shape = "none"
	Sine        Shape = "sine"
	Walk        Shape = "walk"
	Temperature Shape = "temperature"
)

// Step is a jump of the counter. A negative step, with which the counter goes back, models a reset.
type Step struct {
	At        uint64 `json:"at,string"`
	By_cycles int64  `json:"by_cycles,string"`
}

// RealtimeConfig describes a virtual CLOCK_REALTIME.
type RealtimeConfig struct {
	Origin_ns   int64          `json:"origin_ns,string"`
	Offset_ns   int64          `json:"offset_ns,string"`
	Adjustments []Adjustment   `json:"adjustments,omitempty"`
	Slews       []Slew         `json:"slews,omitempty"`
	Steps       []RealtimeStep `json:"steps,omitempty"`
}

// Adjustment says which frequency and tick (see adjtimex) the clock has from a time on. Before the
// first adjustment the frequency is 0 and the tick 10,000.
type Adjustment struct {
	At_ns   int64 `json:"at_ns,string"`
	Freq    int64 `json:"freq"`
	Tick_us int64 `json:"tick_us"`
}

// Slew moves the clock by an offset, gradually.
type Slew struct {
	At_ns     int64 `json:"at_ns,string"`
	Offset_ns int64 `json:"offset_ns,string"`
	Rate_ppm  int64 `json:"rate_ppm"`
}

// length_ns returns how long the slew lasts. The result is exact, because one million is a multiple
// of Rate_ppm.
func (s Slew) length_ns() int64 { return max(s.Offset_ns, -s.Offset_ns) * (1_000_000 / s.Rate_ppm) }

// RealtimeStep sets the clock at a time.
type RealtimeStep struct {
	At_ns int64 `json:"at_ns,string"`
	By_ns int64 `json:"by_ns,string"`
}

// PPM converts parts per million to 2^-40, the unit of rates and wanders.
func PPM(ppm float64) int64 { return int64(math.Round(ppm * (1 << 40) / 1e6)) }

// DefaultConfig returns the configuration of a node whose clocks show the same readings as the
// physical clocks.
func DefaultConfig() Config {
	return Config{Version: Version, Counter: CounterConfig{Quantum_cycles: 1,
		Wander: WanderConfig{Shape: Steady, SegmentLog2: 28}}}
}

// These limits keep all fixed-point arithmetic within 128 bits.
const (
	rateBits       = 40
	rateOne        = 1 << rateBits
	leastRate_2e40 = -rateOne / 2
	mostRate_2e40  = rateOne
	mostWander     = 1 << 32 // in 2^-40; a rate is at most 3,906 ppm from its mean, anywhere
	leastSegment   = 10
	mostSegment    = 30
	mostSegments   = 1 << 22
	mostSteps      = 1 << 16
	mostTime_ns    = 1 << 61 // in the year 2043
)

// Validate returns an error that names the first invalid key. The error wraps ErrConfig.
func (c Config) Validate() error {
	if c.Version != Version {
		return fmt.Errorf("version %d: this program knows %d: %w", c.Version, Version, ErrConfig)
	}
	if err := c.Counter.validate(); err != nil {
		return err
	}
	return c.Realtime.validate()
}

func wrong(key string, value any, want string) error {
	return fmt.Errorf("%s = %v: want %s: %w", key, value, want, ErrConfig)
}

func (c CounterConfig) validate() error {
	switch {
	case c.Rate_2e40 < leastRate_2e40 || c.Rate_2e40 > mostRate_2e40:
		return wrong("counter.rate_2e40", c.Rate_2e40,
			fmt.Sprintf("%d to %d (half to double speed)",
				int64(leastRate_2e40), int64(mostRate_2e40)))
	case c.Quantum_cycles == 0 || c.Quantum_cycles > 1<<32:
		return wrong("counter.quantum_cycles", c.Quantum_cycles, "1 to 2^32")
	case len(c.Steps) > mostSteps:
		return wrong("counter.steps", len(c.Steps), fmt.Sprintf("at most %d", mostSteps))
	}
	for i, s := range c.Steps {
		if i > 0 && s.At <= c.Steps[i-1].At {
			return wrong(fmt.Sprintf("counter.steps[%d].at", i), s.At, "steps in ascending order")
		}
	}
	w := c.Wander
	switch w.Shape {
	case Steady, Sine, Walk, Temperature:
	default:
		return wrong("counter.wander.shape", fmt.Sprintf("%q",
			w.Shape), "none, sine, walk or temperature")
	}
	if w.SegmentLog2 < leastSegment || w.SegmentLog2 > mostSegment {
		return wrong("counter.wander.segment_log2", w.SegmentLog2,
			fmt.Sprintf("%d to %d", leastSegment, mostSegment))
	}
	if w.Segments < 0 || w.Segments > mostSegments {
		return wrong("counter.wander.segments", w.Segments, fmt.Sprintf("0 to %d", mostSegments))
	}
	if c.Origin+uint64(w.Segments)<<w.SegmentLog2 < c.Origin {
		return wrong("counter.wander.segments", w.Segments, "knots below 2^64")
	}
	if w.Shape == Steady {
		return nil
	}
	switch {
	case w.Limit_2e40 < 0 || w.Limit_2e40 > mostWander/2:
		return wrong("counter.wander.limit_2e40", w.Limit_2e40,
			fmt.Sprintf("0 to %d", mostWander/2))
	case w.Window_cycles == 0 || w.Window_cycles > 1<<56:
		return wrong("counter.wander.window_cycles", w.Window_cycles, "1 to 2^56")
	case w.Segments == 0:
		return wrong("counter.wander.segments", 0, "at least 1 where the rate wanders")
	case w.Shape != Walk && (w.Period_cycles < 2<<w.SegmentLog2 || w.Period_cycles > 1<<62):
		return wrong("counter.wander.period_cycles", w.Period_cycles,
			"at least two segments, at most 2^62")
	case w.Shape == Temperature && w.Settle_cycles == 0:
		return wrong("counter.wander.settle_cycles", 0, "a time constant")
	}
	return nil
}

func (c RealtimeConfig) validate() error {
	if c.Origin_ns < 0 || c.Origin_ns > mostTime_ns {
		return wrong("realtime.origin_ns", c.Origin_ns, "0 to 2^61")
	}
	if c.Offset_ns < -mostTime_ns || c.Offset_ns > mostTime_ns {
		return wrong("realtime.offset_ns", c.Offset_ns, "within ±2^61")
	}
	if n := len(c.Adjustments) + len(c.Slews) + len(c.Steps); n > mostSteps {
		return wrong("realtime", n,
			fmt.Sprintf("at most %d adjustments, slews and steps", mostSteps))
	}
	before := func(key string, i int, at, previous int64, first bool) error {
		if at < c.Origin_ns || at > mostTime_ns || !first && at <= previous {
			return wrong(fmt.Sprintf("realtime.%s[%d].at_ns",
				key, i), at, "instants from the origin on, in ascending order")
		}
		return nil
	}
	var previous int64
	for i, a := range c.Adjustments {
		if err := before("adjustments", i, a.At_ns, previous, i == 0); err != nil {
			return err
		}
		previous = a.At_ns
		if a.Freq < -mostFreq || a.Freq > mostFreq {
			return wrong(fmt.Sprintf("realtime.adjustments[%d].freq",
				i), a.Freq, "within ±32768000 (500 ppm)")
		}
		if a.Tick_us < 9000 || a.Tick_us > 11000 {
			return wrong(fmt.Sprintf("realtime.adjustments[%d].tick_us",
				i), a.Tick_us, "9000 to 11000")
		}
	}
	for i, s := range c.Slews {
		if err := before("slews", i, s.At_ns, 0, true); err != nil {
			return err
		}
		if s.Rate_ppm < 1 || s.Rate_ppm > 1000 || 1_000_000%s.Rate_ppm != 0 {
			return wrong(fmt.Sprintf("realtime.slews[%d].rate_ppm",
				i), s.Rate_ppm, "a divisor of 1000000, up to 1000")
		}
		if most := int64(mostTime_ns / 1_000_000); s.Offset_ns < -most || s.Offset_ns > most {
			return wrong(fmt.Sprintf("realtime.slews[%d].offset_ns",
				i), s.Offset_ns, fmt.Sprintf("within ±%d", most))
		}
	}
	if len(c.Slews) > 64 { // overlapping slews add up their rates
		return wrong("realtime.slews", len(c.Slews), "at most 64")
	}
	previous = 0
	total_ns := int64(0)
	for i, s := range c.Steps {
		if err := before("steps", i, s.At_ns, previous, i == 0); err != nil {
			return err
		}
		previous = s.At_ns
		if s.By_ns < -mostTime_ns || s.By_ns > mostTime_ns {
			return wrong(fmt.Sprintf("realtime.steps[%d].by_ns", i), s.By_ns, "within ±2^61")
		}
		if total_ns += s.By_ns; total_ns < -mostTime_ns || total_ns > mostTime_ns {
			return wrong(fmt.Sprintf("realtime.steps[%d].by_ns",
				i), s.By_ns, "steps that add up to no more than ±2^61")
		}
	}
	return nil
}

// Encode returns the configuration in the form that FORMAT.md describes.
func (c Config) Encode() ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("encode virtual node %q: %w", c.Name, err)
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode virtual node %q: %w", c.Name, err)
	}
	return append(text, '\n'), nil
}

// ParseConfig reverses Encode. The error wraps ErrConfig.
func ParseConfig(text []byte) (Config, error) {
	c := Config{}
	err := json.Unmarshal(text, &c)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		err = fmt.Errorf("line %d: %w", lineAt(text, syntax.Offset), err)
	case errors.As(err, &kind):
		err = fmt.Errorf("line %d: %w", lineAt(text, kind.Offset), err)
	default:
		if wrong := checkKeys(text); wrong != nil {
			err = wrong
		}
	}
	if err != nil {
		return Config{}, fmt.Errorf("parse virtual node: %w: %w", err, ErrConfig)
	}
	if err := c.Validate(); err != nil {
		return Config{}, fmt.Errorf("parse virtual node %q: %w", c.Name, err)
	}
	return c, nil
}

// Node contains a virtual node's clocks.
type Node struct {
	Counter  *Counter
	Realtime *Realtime
}

// New makes the clocks of a virtual node. The error wraps ErrConfig.
func New(c Config) (Node, error) {
	if err := c.Validate(); err != nil {
		return Node{}, fmt.Errorf("make virtual node %q: %w", c.Name, err)
	}
	counter, err := NewCounter(c.Counter)
	if err != nil {
		return Node{}, fmt.Errorf("make virtual node %q: %w", c.Name, err)
	}
	realtime, err := NewRealtime(c.Realtime)
	if err != nil {
		return Node{}, fmt.Errorf("make virtual node %q: %w", c.Name, err)
	}
	return Node{counter, realtime}, nil
}
