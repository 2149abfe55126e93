package library

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/sim"
)

// placeStream returns a random stream that is always the same for a node. It gives the numbers that
// a node has for its whole life, such as the number of its router. So these numbers need no memory.
func placeStream(w *sim.World, n sim.Node, seed uint64) sim.Stream {
	return sim.NewStream(w.Seed^seed, uint64(n))
}

// routerDelays are the delays between routers, which E2ETransport uses.
type routerDelays struct {
	delays [][]sim.Time
	seed   uint64
}

func (b *Builder) e2e() *routerDelays {
	if b.routes == nil {
		b.routes = &routerDelays{seed: 0xe2e}
	}
	return b.routes
}

func (r *routerDelays) shortest() sim.Time {
	least := sim.Never
	for _, row := range r.delays {
		least = min(least, slices.Min(row))
	}
	return least
}

func (r *routerDelays) router(w *sim.World, n sim.Node) int {
	s := placeStream(w, n, r.seed)
	return s.Int(len(r.delays))
}

// e2e delays a message by the delay between the routers of its two nodes.
type e2e struct {
	silentProtocol
	routes *routerDelays
	local  sim.Time
}

func newE2E(b *Builder, key string) any {
	return &e2e{routes: b.e2e(), local: sim.Time(b.File.Int(key+".local", 0, math.MaxInt32, 0))}
}

func (t *e2e) Shortest() sim.Time {
	if len(t.routes.delays) == 0 {
		return 0
	}
	return t.routes.shortest() + 2*t.local
}

func (t *e2e) Delay(c *sim.Context, to sim.Node) (sim.Time, bool) {
	if len(t.routes.delays) == 0 {
		c.Fail("E2ETransport has no delays: use the initialiser KingParser")
		return 0, false
	}
	a, b := t.routes.router(c.World(), c.Node()), t.routes.router(c.World(), to)
	return t.routes.delays[a][b] + 2*t.local, true
}

// noInitialiser is an initialiser that does nothing when it runs. The function that made it has
// done the work already.
type noInitialiser struct{}

func (noInitialiser) Run(*sim.World, *sim.Stream) (bool, error) { return false, nil }

// newRouters gives each node a random router.
func newRouters(b *Builder, key string) any {
	Find[*e2e](b, key+".protocol", "is not an E2ETransport")
	b.e2e().seed ^= uint64(b.File.Int(key+".seed", math.MinInt64, math.MaxInt64, 0))
	return noInitialiser{}
}

// newKing reads the delays between routers from a file of the King data set.
func newKing(b *Builder, key string) any {
	path := b.Path(key + ".file")
	ratio := b.File.Float(key+".ratio", 0, math.MaxFloat64, 1)
	if path == "" {
		return noInitialiser{}
	}
	size := 0
	var delays [][]sim.Time
	err := eachLine(path, func(line string) error {
		if strings.HasPrefix(line, "node") {
			size++
			return nil
		}
		if size == 0 {
			return nil
		}
		if delays == nil {
			if size > 1<<14 {
				return fmt.Errorf("%d routers: at most %d are possible", size, 1<<14)
			}
			delays = make([][]sim.Time, size)
			for i := range delays {
				delays[i] = make([]sim.Time, size)
			}
		}
		fields := strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ' ' })
		if len(fields) < 3 {
			return fmt.Errorf("%q: want two routers and a delay", line)
		}
		a, err1 := strconv.Atoi(fields[0])
		c, err2 := strconv.Atoi(fields[1])
		if err1 != nil || err2 != nil || a < 1 || a > size || c < 1 || c > size {
			return fmt.Errorf("%q: want routers from 1 to %d", line, size)
		}
		d, err := delayOf(fields[2], ratio)
		delays[a-1][c-1], delays[c-1][a-1] = d, d
		return err
	})
	if err != nil {
		b.File.Fault(key+".file", "%w", err)
	}
	b.e2e().delays = delays
	return noInitialiser{}
}

// delayOf returns a delay in ns, from a number in a file's unit.
func delayOf(text string, ratio float64) (sim.Time, error) {
	v, err := strconv.ParseFloat(text, 64)
	if d := v * ratio; err == nil && d >= 0 && d < 1<<62 {
		return sim.Time(d), nil
	}
	return 0, fmt.Errorf("%q is not a delay: want 0 or more", text)
}

// eachLine calls f for each line of a file, except empty ones and comments (#).
func eachLine(path string, f func(line string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := f(line); err != nil {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	return lines.Err()
}

// delayJitter limits the random time that is added to a message's delay.
type delayJitter uint64

func (b *Builder) jitter(key string) delayJitter {
	return delayJitter(b.File.Int(key+".jitter", 0, math.MaxInt64-1, 0))
}

func (j delayJitter) draw(c *sim.Context) sim.Time {
	if j == 0 {
		return 0
	}
	return sim.Time(c.Random().Below(uint64(j) + 1))
}

// matrixTransport delays a message by the delay between the sites of its two nodes. Each node is at
// a random site.
type matrixTransport struct {
	silentProtocol
	routerDelays
	jitter delayJitter
}

func newMatrix(b *Builder, key string) any {
	t := &matrixTransport{routerDelays: routerDelays{seed: 0x3a7}, jitter: b.jitter(key)}
	path := b.Path(key + ".file")
	ratio := b.File.Float(key+".ratio", 0, math.MaxFloat64, 1)
	if path == "" {
		return t
	}
	err := eachLine(path, func(line string) error {
		var row []sim.Time
		for text := range strings.FieldsSeq(strings.ReplaceAll(line, ",", " ")) {
			d, err := delayOf(text, ratio)
			if err != nil {
				return err
			}
			row = append(row, d)
		}
		if len(t.delays) > 0 && len(row) != len(t.delays[0]) {
			return fmt.Errorf("%d delays, and %d in the line before", len(row), len(t.delays[0]))
		}
		t.delays = append(t.delays, row)
		return nil
	})
	if err == nil && (len(t.delays) == 0 || len(t.delays) != len(t.delays[0])) {
		err = fmt.Errorf("%s: want as many lines as there are delays in a line", path)
	}
	if err != nil {
		b.File.Fault(key+".file", "%w", err)
	}
	return t
}

func (t *matrixTransport) Shortest() sim.Time { return t.shortest() }

func (t *matrixTransport) Delay(c *sim.Context, to sim.Node) (sim.Time, bool) {
	a, b := t.router(c.World(), c.Node()), t.router(c.World(), to)
	return t.delays[a][b] + t.jitter.draw(c), true
}

// coordinateTransport delays a message by the distance between its two nodes, which lie at random
// in a square.
type coordinateTransport struct {
	silentProtocol
	least, across float64
	jitter        delayJitter
}

func newCoordinates(b *Builder, key string) any {
	return &coordinateTransport{least: float64(b.File.MustInt(key+".mindelay", 0, math.MaxInt64/4)),
		across: float64(b.File.MustInt(key+".across", 0, math.MaxInt64/4)), jitter: b.jitter(key)}
}

func (t *coordinateTransport) Shortest() sim.Time { return sim.Time(t.least) }

func (t *coordinateTransport) Delay(c *sim.Context, to sim.Node) (sim.Time, bool) {
	a, b := placeStream(c.World(), c.Node(), 0xc00), placeStream(c.World(), to, 0xc00)
	x, y := a.Float()-b.Float(), a.Float()-b.Float()
	// Sqrt rounds exactly on every machine. Hypot does not.
	distance := math.Sqrt(float64(x*x) + float64(y*y))
	return sim.Time(t.least+float64(t.across*distance)) + t.jitter.draw(c), true
}

// traceTransport delays each message by one of the delays in a file.
type traceTransport struct {
	silentProtocol
	delays []sim.Time
}

func newTrace(b *Builder, key string) any {
	t := &traceTransport{}
	path := b.Path(key + ".file")
	ratio := b.File.Float(key+".ratio", 0, math.MaxFloat64, 1)
	if path == "" {
		return t
	}
	err := eachLine(path, func(line string) error {
		d, err := delayOf(line, ratio)
		t.delays = append(t.delays, d)
		return err
	})
	if err == nil && len(t.delays) == 0 {
		err = fmt.Errorf("%s: it has no delays", path)
	}
	if err != nil {
		b.File.Fault(key+".file", "%w", err)
	}
	return t
}

func (t *traceTransport) Shortest() sim.Time {
	if len(t.delays) == 0 {
		return 0
	}
	return slices.Min(t.delays)
}

func (t *traceTransport) Delay(c *sim.Context, _ sim.Node) (sim.Time, bool) {
	return t.delays[c.Random().Int(len(t.delays))], true
}
