package sim

// A Control looks at the network or changes it. It runs between two windows. If the simulation runs
// in several processes, the control runs in each of these processes, with the same random numbers.
type Control interface {
	// Run returns true if the simulation must stop.
	Run(w *World, s *Stream) (stop bool, err error)
}

// An Observer is a control whose result depends on the state of all nodes.
type Observer interface {
	// Measure measures the living nodes of one shard. It may be called for several shards at the
	// same time.
	Measure(w *World, shard int) []byte
	// Report gets the measurements of all shards, in their order. It returns true if the simulation
	// must stop.
	Report(w *World, shards [][]byte) (stop bool, err error)
}

// A Schedule says when a control runs: at From, then after each Step, before Until.
type Schedule struct {
	From, Step, Until Time
	// Final says that the control also runs when the simulation has ended.
	Final bool
	// Only says that the control does not run before the end.
	Only bool
}

// firstTime returns the first time at or after the given one at which the control runs. It returns
// Never if there is none.
func (s Schedule) firstTime(t Time) Time {
	if s.Only {
		return Never
	}
	at := s.From
	if t > at {
		at += (t - at + s.Step - 1) / s.Step * s.Step
	}
	if at >= s.Until {
		return Never
	}
	return at
}

// A Scheduled control has a schedule and a random stream.
type Scheduled struct {
	Name     string
	Control  any // a Control or an Observer
	Schedule Schedule

	stream Stream
	next   Time
}

// controlStream is the id of the first control's stream. The ids of nodes' streams are lower.
const controlStream = 1 << 40

// AddControl adds a control. Controls that are due at the same time run in the order in which they
// were added.
func (w *World) AddControl(name string, control any, s Schedule) {
	w.controls = append(w.controls, &Scheduled{Name: name, Control: control, Schedule: s,
		stream: w.ControlStream(len(w.controls)), next: s.firstTime(0)})
}

// ControlStream returns the random stream of the control or initialiser with the number i. The
// numbers of initialisers are higher than those of controls.
func (w *World) ControlStream(i int) Stream { return NewStream(w.Seed, controlStream+uint64(i)) }

// Execute runs a control once. A Control draws its random numbers from the stream.
func (w *World) Execute(control any, s *Stream) (stop bool, err error) {
	if o, ok := control.(Observer); ok {
		return w.measureShards(o)
	}
	return control.(Control).Run(w, s)
}

// measureShards measures each shard and reports. The processes exchange their measurements.
func (w *World) measureShards(o Observer) (bool, error) {
	parts := make([][]byte, len(w.shards))
	err := w.forEachWorker(func(k *shardWorker) {
		for s := range w.shards {
			if w.shards[s] != nil && w.workerOf(s) == k.index {
				parts[s] = o.Measure(w, s)
			}
		}
	})
	if err != nil {
		return false, err
	}
	if w.exchange != nil {
		if parts, err = w.exchange.Gather(parts); err != nil {
			return false, err
		}
	}
	return o.Report(w, parts)
}

// InShard calls f for each living node of a shard, in order.
func (w *World) InShard(shard int, f func(n Node)) {
	for n := Node(shard << shardBits); n < Node((shard+1)<<shardBits) && int(n) < w.joined; n++ {
		if w.Up(n) {
			f(n)
		}
	}
}

// nextControl returns the time at which the next control is due.
func (w *World) nextControl() Time {
	at := Never
	for _, c := range w.controls {
		at = min(at, c.next)
	}
	return at
}

// runControls runs all controls that are due now.
func (w *World) runControls() error {
	for _, c := range w.controls {
		if c.next != w.now.at {
			continue
		}
		c.next = c.Schedule.firstTime(w.now.at + 1)
		stop, err := w.Execute(c.Control, &c.stream)
		if err != nil {
			return err
		}
		w.stopped = w.stopped || stop
	}
	return nil
}

// Finish runs the controls that are due at the end.
func (w *World) Finish() error {
	w.finishing = true
	for _, c := range w.controls {
		if c.Schedule.Final {
			if _, err := w.Execute(c.Control, &c.stream); err != nil {
				return err
			}
		}
	}
	return nil
}
