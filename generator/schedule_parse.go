package generator

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// ParseSchedule reads a schedule as people write it:
//
//	constant:RATExDURATION            constant:250000x10s
//	step:RATExDURATION,...            step:1000x5s,2000x5s,500x1m
//	ramp:FROM-TOxDURATION             ramp:0-100000x30s
//	burst:SIZE/PERIODxDURATION        burst:500/100msx10s
//	poisson:RATExDURATION[@SEED]      poisson:50000x10s@7
//	replay:FILE                       one time in seconds on each line
//
// Rates are tuples a second and may have a fraction. open opens the file of a replay. If open is
// nil, replay is not allowed.
func ParseSchedule(text string, open func(name string) (io.ReadCloser, error)) (Schedule, error) {
	kind, rest, _ := strings.Cut(text, ":")
	bad := func(want string) error { return fmt.Errorf("%w %q: want %s", ErrSchedule, text, want) }
	switch kind {
	case "constant":
		rate, d, ok := rateFor(rest)
		if !ok {
			return nil, bad("constant:RATExDURATION, as in constant:250000x10s")
		}
		return Constant(rate, d)
	case "step":
		var parts []Stretch
		for part := range strings.SplitSeq(rest, ",") {
			rate, d, ok := rateFor(part)
			if !ok {
				return nil, bad("step:RATExDURATION,..., as in step:1000x5s,2000x5s")
			}
			parts = append(parts, Stretch{rate, rate, d})
		}
		return Stretches(text, parts...)
	case "ramp":
		span, length, _ := cutLast(rest, "x")
		from, to, _ := strings.Cut(span, "-")
		a, errA := strconv.ParseFloat(from, 64)
		b, errB := strconv.ParseFloat(to, 64)
		d, errD := time.ParseDuration(length)
		if errA != nil || errB != nil || errD != nil {
			return nil, bad("ramp:FROM-TOxDURATION, as in ramp:0-100000x30s")
		}
		return Ramp(a, b, d)
	case "burst":
		each, length, _ := cutLast(rest, "x")
		size, period, _ := strings.Cut(each, "/")
		n, errN := strconv.Atoi(size)
		p, errP := time.ParseDuration(period)
		d, errD := time.ParseDuration(length)
		if errN != nil || errP != nil || errD != nil {
			return nil, bad("burst:SIZE/PERIODxDURATION, as in burst:500/100msx10s")
		}
		return Burst(n, p, d)
	case "poisson":
		each, seedText, seeded := strings.Cut(rest, "@")
		seed, err := uint64(1), error(nil)
		if seeded {
			seed, err = strconv.ParseUint(seedText, 10, 64)
		}
		rate, d, ok := rateFor(each)
		if !ok || err != nil {
			return nil, bad("poisson:RATExDURATION[@SEED], as in poisson:50000x10s@7")
		}
		return Poisson(rate, d, seed)
	case "replay":
		if rest == "" || open == nil {
			return nil, bad("replay:FILE, where files are allowed")
		}
		f, err := open(rest)
		if err != nil {
			return nil, fmt.Errorf("open trace: %w", err)
		}
		defer f.Close()
		return Replay(rest, f)
	}
	return nil, bad("constant:, step:, ramp:, burst:, poisson: or replay:")
}

// rateFor reads RATExDURATION.
func rateFor(text string) (rate float64, d time.Duration, ok bool) {
	r, length, _ := cutLast(text, "x")
	rate, errR := strconv.ParseFloat(r, 64)
	d, errD := time.ParseDuration(length)
	return rate, d, errR == nil && errD == nil
}

func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}
