package clock

import "sort"

// Epsilons say how far the clocks of processes may differ. Any number of goroutines may use them at
// once, as long as none of them calls Add.
type Epsilons struct {
	windows []window
}

// A window is a range of epochs in which the epsilons stay the same.
type window struct {
	from    int64 // the first epoch
	uniform int64 // the epsilon of all processes, if of is nil
	of      []int64
	least   []int64 // no floor in this window is below least
}

// Uniform returns Epsilons in which all processes have the same epsilon at all times. The epsilon
// is at least 1.
func Uniform(epochs int64) *Epsilons {
	return &Epsilons{windows: []window{{uniform: max(epochs, 1)}}}
}

// Add sets the epsilons from an epoch on: for each process, the largest difference between its
// clock and the clock of any other process. Let ε be the epsilon of process p. When the clock of
// another process shows x, every event of p at which p's clock showed x − ε or less has happened.
// Epochs must increase from call to call, and the number of processes must stay the same.
func (e *Epsilons) Add(from int64, of []int64) {
	w := window{from: from, of: of}
	if n := len(e.windows); n > 0 {
		// What a process knew at the end of the last window stays known if epsilon grows.
		last := &e.windows[n-1]
		w.least = make([]int64, len(of))
		for k := range of {
			w.least[k] = last.floor(uint32(k), from-1)
		}
	}
	e.windows = append(e.windows, w)
}

// Largest returns the largest epsilon.
func (e *Epsilons) Largest() (largest int64) {
	for _, w := range e.windows {
		largest = max(largest, w.uniform)
		for _, of := range w.of {
			largest = max(largest, of)
		}
	}
	return largest
}

// Floor returns an epoch. When any process is in the epoch "reached", all events that the given
// process has up to the returned epoch have happened. Time alone proves this, without messages.
func (e *Epsilons) Floor(process int, reached int64) int64 {
	return e.at(reached).floor(uint32(process), reached)
}

func (e *Epsilons) at(epoch int64) *window {
	if len(e.windows) == 1 {
		return &e.windows[0]
	}
	return e.search(epoch)
}

func (e *Epsilons) search(epoch int64) *window {
	after := sort.Search(len(e.windows), func(i int) bool { return e.windows[i].from > epoch })
	return &e.windows[max(after-1, 0)]
}

func (w *window) floor(process uint32, reached int64) int64 {
	if w.of == nil {
		return reached - w.uniform
	}
	return w.floorOf(process, reached)
}

func (w *window) floorOf(process uint32, reached int64) int64 {
	f := reached - w.of[process]
	if w.least != nil {
		f = max(f, w.least[process])
	}
	return f
}
