package minrtt

// HardwareClock is the clock by which a network interface stamps packets. The interface stamps an
// outgoing packet later than the kernel stamps it, and an incoming packet earlier than the kernel.
// So the stamp of the interface is a further constraint: at the moment of this stamp, an outgoing
// packet was still in the node, or an incoming packet was already in the node.
//
// No train proves that such stamps are true. So a node uses no hardware stamps unless somebody
// vouches for the following:
//
//   - The stamp of a packet that leaves is at most Error_ns later than the moment when the packet
//     left. The stamp of a packet that arrives is at most Error_ns earlier than its arrival.
//     Error_ns includes the step in which the interface's clock moves.
//   - During a train, nobody sets the clock, and its rate differs from its mean by at most
//     Wander_ppb, whatever disciplines the clock.
//
// The clock may show any time, and have any frequency. If a stamp is missing, cannot be related to
// CLOCK_REALTIME, or contradicts the kernel's stamp, the node uses the kernel's stamp. If the user
// stamps around a hardware stamp contradict it, the train uses user stamps, as with a wrong stamp
// of the kernel.
type HardwareClock struct {
	Wander_ppb uint32
	Error_ns   uint32

	// Read reads CLOCK_REALTIME, the interface's clock, and CLOCK_REALTIME again. It reports false
	// if the clock cannot be read.
	Read func() (before_ns, clock_ns, after_ns int64, ok bool)
}

// hardwareEnd contains the readings of a HardwareClock that a train has taken so far.
type hardwareEnd struct {
	opening [maxBrackets]bracket
	length  uint8
	latest  bracket
}

// readHardware reads the clock of hardware stamps between two readings of CLOCK_REALTIME. The
// result is a bracket with CLOCK_REALTIME in the place of the counter.
func (c *Clock) readHardware(step_ns uint32) (b bracket, ok bool) {
	before_ns, clock_ns, after_ns, ok := c.Hardware.Read()
	before_ns, after_ns = c.kernelStamp(before_ns), c.kernelStamp(after_ns)
	return bracket{uint64(before_ns), clock_ns, uint64(after_ns) + uint64(step_ns)},
		ok && before_ns <= after_ns
}

// openHardware reads the clock of hardware stamps before a train.
func (c *Clock) openHardware(e *clockEnd) {
	if c.Hardware == nil || !e.known {
		return
	}
	for range e.hardware.opening {
		if b, ok := c.readHardware(e.step_ns); ok {
			e.hardware.opening[e.hardware.length] = b
			e.hardware.length++
		}
	}
}

// fromHardware returns two values of CLOCK_REALTIME between which a packet passed the interface. It
// reports false if nothing proves that.
func (c *Clock) fromHardware(e *clockEnd, stamp_ns int64) (lo_ns, hi_ns int64, ok bool) {
	h := &e.hardware
	if c.Hardware == nil || h.length == 0 || stamp_ns == 0 {
		return 0, 0, false
	}
	if h.latest.realtime_ns <= stamp_ns {
		// One reading of the clock serves all stamps before it.
		if h.latest, ok = c.readHardware(e.step_ns); !ok {
			h.latest = bracket{}
			return 0, 0, false
		}
	}
	now, err := c.Discipline()
	if err != nil {
		return 0, 0, false
	}
	// The rates of both clocks may differ from their means.
	own := uint64(possibleWander(e.discipline, now,
		int64(h.opening[0].before_cycles), int64(h.latest.after_cycles)))
	its := uint64(c.Hardware.Wander_ppb)
	r := clockReport{status: clockRelated, step_ns: 1,
		wander_ppb: uint32(min(own+its+own*its/1e9+1, anything_ppb+1)), // above anything: refused
		opening:    h.opening, openingLength: h.length, closingLength: 1}
	r.closing[0] = h.latest
	clock := newRealtime(&r)
	if clock == nil {
		return 0, 0, false
	}
	iv, ok := clock.countsAt(stamp_ns)
	error_ns := int64(c.Hardware.Error_ns)
	return int64(iv.Lo) - error_ns, int64(iv.Hi) + error_ns, ok
}

// leftBy narrows the kernel's stamp of a packet that left. It uses the hardware's stamp of the same
// packet.
func (s *stamp) leftBy(c *Clock, e *clockEnd, hardware_ns int64, n *Counts) {
	if s.source != Kernel || hardware_ns == 0 {
		return
	}
	lo_ns, hi_ns, ok := c.fromHardware(e, hardware_ns)
	if ok = ok && hi_ns >= s.realtime_ns; ok {
		s.realtime_ns = max(s.realtime_ns, lo_ns)
	}
	n.hardware(ok)
}

// arrivedBy narrows the kernel's stamp of a packet that arrived. It uses the hardware's stamp of
// the same packet.
func (s *stamp) arrivedBy(c *Clock, e *clockEnd, hardware_ns int64, n *Counts) {
	if s.source != Kernel || hardware_ns == 0 {
		return
	}
	lo_ns, hi_ns, ok := c.fromHardware(e, hardware_ns)
	if ok = ok && lo_ns <= s.realtime_ns+int64(e.step_ns); ok {
		s.realtime_ns = min(s.realtime_ns, hi_ns)
	}
	n.hardware(ok)
}

func (c *Counts) hardware(used bool) {
	if used {
		c.Hardware++
	} else {
		c.HardwareUnused++
	}
}
