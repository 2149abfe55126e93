package drain

import (
	"errors"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// ErrProcess is returned, through Options.Notify and Stats, where a process has more rings than one is to have.
var ErrProcess = errors.New("process has too many rings")

// ProcessStats is what the rings of a process take. Which process it is, is what the rings say.
type ProcessStats struct {
	PIDNamespace uint64 // in which the process id holds; 0: not known
	ProcessID    int
	Rings        int
	RingBytes    int64 // of shared memory
}

// process tells processes apart, also those of two containers that have the same id.
type process struct {
	namespace uint64
	id        int
}

func processOf(h ring.Header) process { return process{h.PIDNamespace, h.ProcessID} }

func (p process) String() string {
	if p.namespace == 0 {
		return fmt.Sprintf("process %d", p.id)
	}
	return fmt.Sprintf("process %d of PID namespace %d", p.id, p.namespace)
}

// processes is what the rings that are drained take.
type processes map[process]ProcessStats

func (p processes) add(s *source, sign int) {
	whose := processOf(s.header)
	one := p[whose]
	one.PIDNamespace, one.ProcessID = whose.namespace, whose.id
	one.Rings += sign
	one.RingBytes += int64(sign) * s.header.FileBytes()
	if one.Rings == 0 {
		delete(p, whose)
		return
	}
	p[whose] = one
}

// refusal says that a ring is more than its process is to have.
type refusal struct {
	process process
	bytes   int64
	error
}

func (r *refusal) Unwrap() error { return r.error }

// admit returns a refusal if a ring is more than its process is to have.
func (d *Drainer) admit(of process, bytes int64) error {
	d.mu.Lock()
	has := d.processes[of]
	d.mu.Unlock()
	switch {
	case d.o.MaxProcessRings > 0 && has.Rings >= d.o.MaxProcessRings:
		return &refusal{of, bytes, fmt.Errorf("%s has %d rings already, the most that one may have: close some or raise the limit: %w",
			of, has.Rings, ErrProcess)}
	case d.o.MaxProcessBytes > 0 && has.RingBytes+bytes > d.o.MaxProcessBytes:
		return &refusal{of, bytes, fmt.Errorf("%s has rings of %d bytes already, and %d more are above %d: use smaller ones or raise the limit: %w",
			of, has.RingBytes, bytes, d.o.MaxProcessBytes, ErrProcess)}
	}
	return nil
}
