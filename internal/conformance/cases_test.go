package conformance

import (
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// cases contains what a program does, and what its log must contain afterwards.
var cases = map[string]struct {
	run  func(s *scene)
	want func(t testing.TB) kept
}{
	"id": {
		func(s *scene) {
			s.drain()
			s.do("open one a/x id 0 0 0 0 - - 0")
			s.do("log 5 1000")
			s.do("close")
		},
		func(t testing.TB) kept {
			id := settings(t, "id", nil)
			return kept{Header: header{Settings: id, NodeNumber: 77}, IDs: ids(5, 1000, 1),
				Transitions: []transition{opened(id)}}
		},
	},
	"defaults, killed": {
		func(s *scene) {
			s.do("open one actor#3/point - 0 0 0 0 - - 0")
			s.do("log 0 30000")
			s.kill()
			s.drain()
		},
		func(t testing.TB) kept {
			buffered := settings(t, "buffered", nil)
			return kept{Header: header{Settings: buffered, NodeNumber: 77}, IDs: ids(0, 30000, 1),
				Transitions: []transition{opened(buffered)}}
		},
	},
	"laps of a small ring that blocks": {
		func(s *scene) {
			s.drain()
			s.do("open one a/x id 0 0 0 0 block rdtsc 1000")
			s.do("log 0 5000")
			s.do("close")
		},
		func(t testing.TB) kept {
			id := settings(t, "id", nil)
			return kept{Header: header{Settings: id, Stamp: channel.Unordered, NodeNumber: 77},
				IDs: ids(0, 5000, 1), Transitions: []transition{opened(id)}}
		},
	},
	"drop": {
		func(s *scene) {
			s.do("open one a/x id 0 0 0 0 drop - 256")
			s.do("log 0 100")
			s.says("84", "dropped")
			s.do("close")
			s.drain()
		},
		func(t testing.TB) kept {
			id := settings(t, "id", nil)
			return kept{Header: header{Settings: id, Policy: channel.Drop, NodeNumber: 77},
				IDs: ids(0, 16, 1), Drops: []drop{{16, 84, logstore.RingFull}},
				Transitions: []transition{opened(id)}}
		},
	},
	"flight recorder": {
		func(s *scene) {
			s.do("open one a/x id 0 0 0 0 overwrite - 256")
			s.do("log 0 1000")
			s.says("0", "dropped") // they found room: newer events replaced them
			s.do("close")
			s.drain()
		},
		func(t testing.TB) kept {
			id := settings(t, "id", nil)
			return kept{Header: header{Settings: id, Policy: channel.Overwrite, NodeNumber: 77},
				IDs:         ids(985, 15, 1),
				Drops:       []drop{{0, 985, logstore.Overwritten}},
				Transitions: []transition{opened(id)}}
		},
	},
	"snapshot while it runs": {
		func(s *scene) {
			s.drain()
			s.do("open one a/x id 0 0 0 0 overwrite - 256")
			s.do("log 0 1000")
			s.do("snapshot")
			waitFor(s.t, "the snapshot", func() bool { return s.drainer.Stats().Total.Rows > 15 })
			s.do("log 1000 5")
			s.do("close")
		},
		func(t testing.TB) kept {
			id := settings(t, "id", nil)
			return kept{Header: header{Settings: id, Policy: channel.Overwrite, NodeNumber: 77},
				IDs:         ids(985, 20, 1),
				Drops:       []drop{{0, 985, logstore.Overwritten}},
				Transitions: []transition{opened(id)}}
		},
	},
	"counter": {
		func(s *scene) {
			s.drain()
			s.do("open one a/x counter 0 0 0 5000000 - - 0")
			s.do("log 0 12345")
			s.do("close")
		},
		func(t testing.TB) kept {
			c := settings(t, "counter", channel.Params{"period": "5ms"})
			return kept{Header: header{Settings: c, NodeNumber: 77}, Counted: 12345,
				Transitions: []transition{opened(c)}}
		},
	},
	"counter, shared": {
		func(s *scene) {
			s.drain()
			s.do("open shared a/x counter 0 0 0 5000000 - - 0")
			s.do("log 0 12345")
			s.kill()
		},
		func(t testing.TB) kept {
			c := settings(t, "counter", channel.Params{"period": "5ms"})
			return kept{Header: header{Settings: c, NodeNumber: 77}, Counted: 12345,
				Transitions: []transition{opened(c)}}
		},
	},
	"downsample": {
		func(s *scene) {
			s.drain()
			s.do("open one a/x downsample 7 0 0 0 - - 0")
			s.do("log 100 1000")
			s.do("close")
		},
		func(t testing.TB) kept {
			d := settings(t, "downsample", channel.Params{"n": 7})
			return kept{Header: header{Settings: d, NodeNumber: 77}, IDs: ids(100, 143, 7),
				Transitions: []transition{opened(d)}}
		},
	},
	"xoy": {
		func(s *scene) {
			s.drain()
			s.do("open one a/x xoy 0 2 10 0 - - 0")
			s.do("log 18446744073709551600 10")
			s.do("log 7 100")
			s.do("close")
		},
		func(t testing.TB) kept {
			x := settings(t, "xoy", channel.Params{"x": 2, "y": 10})
			k := kept{Header: header{Settings: x, NodeNumber: 77},
				Transitions: []transition{opened(x)}}
			for _, id := range append(ids(1<<64-16, 10, 1), ids(7, 100, 1)...) {
				if id%10 < 2 {
					k.IDs = append(k.IDs, id)
				}
			}
			return k
		},
	},
	"first and last": {
		func(s *scene) {
			s.drain()
			s.do("open one a/x first-last 0 0 0 0 - - 0")
			s.do("log 40 100")
			s.do("log %d 1", channel.Poison)
			s.do("close")
		},
		func(t testing.TB) kept {
			f := settings(t, "first-last", nil)
			return kept{Header: header{Settings: f, NodeNumber: 77},
				FirstLast: [3]uint64{100, 40, 139}, Poisoned: true,
				Transitions: []transition{opened(f)}}
		},
	},
	"links": {
		func(s *scene) {
			s.drain()
			s.do("open one a/x link 0 0 0 0 - - 0")
			s.do("link 1 10")
			s.do("log 5 1") // a wrong call: the handler keeps nothing
			s.do("link 1 11")
			s.do("close")
		},
		func(t testing.TB) kept {
			l := settings(t, "link", nil)
			return kept{Header: header{Settings: l, NodeNumber: 77},
				Links: [][2]uint64{{1, 10}, {1, 11}}, Transitions: []transition{opened(l)}}
		},
	},
	"links, shared": {
		func(s *scene) {
			s.drain()
			s.do("open shared a/x link 0 0 0 0 - - 0")
			s.do("link 1 10")
			s.do("close")
		},
		func(t testing.TB) kept {
			l := settings(t, "link", nil)
			return kept{Header: header{Settings: l, NodeNumber: 77}, Links: [][2]uint64{{1, 10}},
				Transitions: []transition{opened(l)}}
		},
	},
	"shared": {
		func(s *scene) {
			s.drain()
			s.do("open shared a/x id 0 0 0 0 - - 65536")
			s.do("log 0 20000")
			s.kill()
		},
		func(t testing.TB) kept {
			id := settings(t, "id", nil)
			return kept{Header: header{Settings: id, NodeNumber: 77}, IDs: ids(0, 20000, 1),
				Transitions: []transition{opened(id)}}
		},
	},
	"the handler changes": {
		func(s *scene) {
			s.drain()
			s.do("open one a/x - 0 0 0 0 - - 0")
			s.do("log 0 10")
			s.setHandler("xoy", channel.Params{"x": 1, "y": 5})
			s.do("log 0 10")
			s.setHandler("null", nil)
			s.do("log 0 10")
			s.setHandler("downsample", channel.Params{"n": 4})
			s.do("log 0 10")
			s.setHandler("id", nil)
			s.do("log 50 2")
			s.setHandler("downsample", channel.Params{"n": 3}) // this starts the count again
			s.do("log 60 4")
			s.do("close")
		},
		func(t testing.TB) kept {
			buffered := settings(t, "buffered", nil)
			return kept{Header: header{Settings: settings(t, "id", nil), NodeNumber: 77},
				IDs: slices.Concat(ids(0, 10, 1), ids(0, 2, 5), ids(0, 3, 4), ids(50, 2, 1),
					ids(60, 2, 3)),
				Transitions: []transition{opened(buffered), {10, 2, channel.XoY, 1, 5},
					{12, 3, channel.Null, 0, 0},
					{12, 4, channel.Downsample, 4, 0}, {15, 5, channel.Identity, 0, 0},
					{17, 6, channel.Downsample, 3, 0}}}
		},
	},
}
