package drain

import (
	"errors"
	"fmt"
)

// ErrProcess is returned, through Options.Notify, where a process has more rings than one is to have.
var ErrProcess = errors.New("process has too many rings")

// ProcessStats is what the rings of a process take. The process id is what the rings say.
type ProcessStats struct {
	ProcessID int
	Rings     int
	RingBytes int64 // of shared memory
}

// processes is what the rings that are drained take, by process id.
type processes map[int]ProcessStats

func (p processes) add(s *source, sign int) {
	one := p[s.header.ProcessID]
	one.ProcessID = s.header.ProcessID
	one.Rings += sign
	one.RingBytes += int64(sign) * s.header.FileBytes()
	if one.Rings == 0 {
		delete(p, one.ProcessID)
		return
	}
	p[one.ProcessID] = one
}

// admit returns an error if a ring is more than its process is to have.
func (d *Drainer) admit(processID int, bytes int64) error {
	d.mu.Lock()
	has := d.processes[processID]
	d.mu.Unlock()
	switch {
	case d.o.MaxProcessRings > 0 && has.Rings >= d.o.MaxProcessRings:
		return fmt.Errorf("process %d has %d rings already, the most that one may have: close some or raise the limit: %w", processID, has.Rings, ErrProcess)
	case d.o.MaxProcessBytes > 0 && has.RingBytes+bytes > d.o.MaxProcessBytes:
		return fmt.Errorf("process %d has rings of %d bytes already, and %d more are above %d: use smaller ones or raise the limit: %w", processID, has.RingBytes, bytes, d.o.MaxProcessBytes, ErrProcess)
	}
	return nil
}
