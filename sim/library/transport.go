package library

import (
	"math"

	"github.com/cloudprofiler/cloudprofiler/sim"
)

// uniformTransport delays each message by a random time.
type uniformTransport struct {
	silentProtocol
	least sim.Time
	width uint64 // number of possible delays
}

func newUniform(b *Builder, key string) any {
	least := b.File.MustInt(key+".mindelay", 0, math.MaxInt64-1)
	most := b.File.Int(key+".maxdelay", least, math.MaxInt64-1, least)
	return &uniformTransport{least: sim.Time(least), width: uint64(most-least) + 1}
}

func (t *uniformTransport) Shortest() sim.Time { return t.least }

func (t *uniformTransport) Delay(c *sim.Context, _ sim.Node) (sim.Time, bool) {
	if t.width == 1 {
		return t.least, true
	}
	return t.least + sim.Time(c.Random().Below(t.width)), true
}

// lossyTransport loses some of the messages of another transport.
type lossyTransport struct {
	silentProtocol
	of   sim.Transport
	drop float64
}

func newUnreliable(b *Builder, key string) any {
	of, _ := Find[sim.Transport](b, key+".transport", "sends no messages")
	return &lossyTransport{of: of, drop: b.File.MustFloat(key+".drop", 0, 1)}
}

func (t *lossyTransport) Shortest() sim.Time {
	if t.of == nil { // Find noted an error
		return 0
	}
	return t.of.Shortest()
}

func (t *lossyTransport) Delay(c *sim.Context, to sim.Node) (sim.Time, bool) {
	if t.drop > 0 && c.Random().Float() < t.drop {
		return 0, false
	}
	return t.of.Delay(c, to)
}
