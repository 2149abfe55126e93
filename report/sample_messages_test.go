package report

import (
	"math"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
)

// capturedSample is what a capture may have seen of a web shop, whose services ran beside the
// sample's job.
func capturedSample() *messages.Answer {
	program := func(name, node string) messages.Program {
		return messages.Program{Node: node, Name: name}
	}
	load, nginx := program("load", "edge"), program("nginx", "edge")
	gateway, pool := program("gateway", "core-1"), program("java", "core-1")
	tasks, epoll := program("python3", "core-2"), program("epoll", "core-2")
	redis, postgres := program("redis-server", "core-1"), program("postgres", "core-2")
	a := &messages.Answer{
		Reference: "edge", Sent: 1_204_662, Received: 1_391_020, Twice: 41_207,
		Left: map[messages.Reason]uint64{messages.NotReceived: 214, messages.NoChecksum: 1902},
		Nodes: []messages.Node{
			{Node: "edge", Messages: 812_004},
			{Node: "core-2", Messages: 700_112, Lost: map[string]uint64{"buffer full": 38}},
		},
	}
	for _, t := range []struct {
		from, to         messages.Program
		port             uint16
		messages, each   uint64
		there, back      float64 // µs
		bound            float64
		connections      int
		suspect, unknown bool
	}{
		{load, nginx, 8080, 120_000, 180, 14, 2210, .04, 50, false, false},
		{nginx, gateway, 9000, 120_000, 460, 63, 1980, .62, 50, false, false},
		{gateway, pool, 7001, 80_400, 96, 18.4, 611, .05, 12, false, false},
		{gateway, tasks, 7002, 79_810, 96, 71, 940, 2.3, 8, true, false},
		{pool, epoll, 7003, 80_400, 64, 66, 214, 2.1, 16, true, false},
		{epoll, redis, 6379, 80_377, 41, 58, 44.2, 2.2, 4, true, false},
		{tasks, postgres, 0, 79_810, 230, 0, 0, 0, 6, false, true},
		{gateway, redis, 6379, 3120, 28, 16.1, 39.7, .05, 2, false, false},
	} {
		for k, us := range []float64{t.there, t.back} {
			p := messages.Pair{
				From: t.from, To: t.to, Messages: t.messages, Bytes: t.messages * t.each,
				Connections: t.connections, Suspect: t.suspect, To_port: t.port,
				First_cycles: uint64(1 + k),
			}
			if k == 1 {
				p.From, p.To, p.From_port, p.To_port = t.to, t.from, t.port, 0
				p.Messages, p.Bytes = t.messages-11, t.messages*t.each*7
			}
			if t.unknown {
				p.Unknown = p.Messages
				a.Pairs, a.Matched = append(a.Pairs, p), a.Matched+p.Messages
				continue
			}
			p.Transfer = percentilesAround(us, t.bound)
			if t.from != load {
				p.Arrived = p.Messages * 9 / 10
				late := []float64{.25, .55}[k] - .01*float64(t.port%7)
				p.Arrival = percentilesAround((1-late)*us, t.bound)
				p.Waited = percentilesAround(late*us, .03)
				kernel := .2 + .09*float64(t.port%9)
				p.Kernel = percentilesAround(kernel*late*us, .05)
				p.Program = percentilesAround((1-kernel)*late*us, .02)
			}
			if p.Divided = p.Arrived * 8 / 9; t.from == pool {
				p.Divided, p.Kernel, p.Program = 0, nil, nil
			}
			if t.to == gateway && k == 0 {
				p.Resent, p.Resending = 13, percentilesAround(204_000, t.bound)
			}
			if t.to == redis {
				names := []*[]string{&p.To_names, &p.From_names}[k]
				*names = []string{"cache.shop.example", "redis"}
			}
			a.Pairs, a.Matched = append(a.Pairs, p), a.Matched+p.Messages
		}
	}
	a.Outside = []messages.Outside{
		{From: gateway, Address: "203.0.113.7", Port: 443, Messages: 412, Bytes: 190_213,
			Names: []string{"pay.example"}, Connections: 3},
		{From: tasks, Address: "198.51.100.20", Messages: 80, Bytes: 4012, Connections: 9},
	}
	a.Left[messages.NoOtherEnd] = 492
	return a
}

// percentilesAround returns percentiles of durations whose median is given in µs.
func percentilesAround(median, bound float64) (all []messages.Percentile) {
	for _, q := range []float64{50, 90, 99, 100} {
		middle := median * math.Pow(1+q/100, 2) / math.Pow(1.5, 2)
		all = append(all, messages.Percentile{
			Percent:   q,
			Lo_cycles: int64((middle - bound) * sample_hz / 1e6),
			Hi_cycles: int64((middle + bound) * sample_hz / 1e6),
		})
	}
	return all
}

// If the log of a capture is damaged, the page lists it among what is missing.
func TestDamagedCaptureIsMissing(t *testing.T) {
	d, a := emptyData(), capturedSample()
	a.Nodes[1].Missing = "damaged"
	d.AddMessages(a)
	if want := (Missing{"messages of core-2", "damaged"}); !slices.Contains(d.Missing, want) {
		t.Errorf("missing %v, want %v in it", d.Missing, want)
	}
}
