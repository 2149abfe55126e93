package capture

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// ErrNotPossible is returned if this kernel or the rights of this process do not allow a capture.
// The error's text says what to do.
var ErrNotPossible = errors.New("capture is not possible here")

// kernel is the part of a capture that runs in the kernel.
type kernel struct {
	programs  *ebpf.Collection
	hooks     []link.Link
	hookNames []string
	reader    *ringbuf.Reader
	record    ringbuf.Record
	early     bool // the kernel has hookBegin
	also      Also
	sizes     sizes
	shared    sharedMaps
}

// load checks and loads the programs, but does not attach them. The parameter most is the limit for
// the number of bytes of the rings.
func load(most int, o Options) (*kernel, error) {
	here := lookAround()
	if err := here.describesItself(); err != nil {
		return nil, err
	}
	describes, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("%w: read the kernel's description of itself: %w", ErrNotPossible,
			err)
	}
	has := func(hook string) bool {
		var t *btf.Typedef
		return describes.TypeByName("btf_trace_"+hook, &t) == nil
	}
	if err := here.hasHooks(has); err != nil {
		return nil, err
	}
	f, err := findFields(describes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPossible, err)
	}
	processors, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("%w: count processors: %w", ErrNotPossible, err)
	}
	only, err := o.Only.resolve()
	if err != nil {
		return nil, err
	}
	k := &kernel{early: has(hookBegin) && !o.Light, also: o.Also}
	if k.hookNames, err = chooseHooks(has, f, k.early, o.Also); err != nil {
		return nil, err
	}
	w := writer{f: f, chosen: only, also: o.Also, own: ownProcess(), groups: f.knowsGroups(),
		direct: f.knowsRunning() && !o.indirect, early: k.early, empty: o.Empty}
	if err = k.loadPrograms(w, processors, most, o.slots); err == nil {
		if err = k.shared.open(k); err != nil {
			k.programs.Close()
			return nil, err
		}
		return k, nil
	}
	return nil, here.whyRefused(err)
}

// chooseHooks returns the hooks that this kernel has.
func chooseHooks(has func(string) bool, f *fields, early bool, also Also) ([]string, error) {
	hooks := []string{hookRenamed, hookSent, hookReceived}
	if early {
		hooks = append(hooks, hookBegin)
	}
	if has(hookState) {
		hooks = append(hooks, hookState)
	}
	if has(hookAgain) && f.packetControl != 0 && f.packetLen != 0 {
		hooks = append(hooks, hookAgain)
	}
	var more []string // these were asked for
	possible := true
	if also.Arrivals {
		more = append(more, hookArrived)
		possible = f.state != 0 && f.dataSegments != 0
	}
	if also.Calls {
		more = append(more, hookCall, hookCallEnd)
	}
	if also.Threads {
		more = append(more, hookWoke, hookForked, hookExecuted, hookExited)
		possible = possible && f.process != 0
	}
	for _, hook := range more {
		if !has(hook) || !possible {
			return nil, fmt.Errorf("%w: the kernel does not show arrivals, calls or threads: "+
				"leave them out of what is also captured", ErrNotPossible)
		}
	}
	return append(hooks, more...), nil
}

// loadPrograms loads the programs, with smaller maps if the kernel does not allow large ones.
func (k *kernel) loadPrograms(w writer, processors, most, slots int) (err error) {
	for _, most := range []int{most, min(most, smallMap)} {
		w.s = ringSizes(processors, most, w.also)
		if slots > 0 {
			w.s.slots = slots
		}
		k.sizes = w.s
		k.programs, err = w.tryVariants(k.hookNames)
		if !errors.Is(err, unix.E2BIG) {
			break
		}
	}
	return err
}

// tryVariants loads the programs. If the kernel refuses them, it tries others, which read less: a
// kernel may not let them see the queues of threads, and a lockdown of the kernel may allow
// everything except reading the names of cgroups.
func (w writer) tryVariants(hooks []string) (*ebpf.Collection, error) {
	variants := []writer{w}
	if w.groups {
		w.groups = false
		variants = append(variants, w)
	}
	for _, v := range variants {
		if v.direct {
			v.direct = false
			variants = append(variants, v)
		}
	}
	var first error
	for _, v := range variants {
		c, err := ebpf.NewCollection(collectionOf(v, hooks))
		if err == nil {
			return c, nil
		}
		if first = cmp.Or(first, err); errors.Is(err, unix.E2BIG) {
			break
		}
	}
	return nil, first
}

// ownProcess returns this process's number in the kernel, or 0 if it is not known.
func ownProcess() uint32 {
	// If this process is not in the initial PID namespace, the kernel gives processes other numbers
	// than this process sees.
	const initial = "pid:[4026531836]"
	if in, err := os.Readlink("/proc/self/ns/pid"); err == nil && in == initial {
		return uint32(os.Getpid())
	}
	return 0
}

// attach lets the kernel run the programs.
func (k *kernel) attach() (err error) {
	if k.reader, err = ringbuf.NewReader(k.programs.Maps[mapRare]); err != nil {
		return fmt.Errorf("map the buffer: %w", err)
	}
	for _, hook := range k.hookNames {
		l, err := link.AttachTracing(link.TracingOptions{Program: k.programs.Programs[hook]})
		if err != nil {
			return fmt.Errorf("%w: attach to tracepoint %q: %w", ErrNotPossible, hook, err)
		}
		k.hooks = append(k.hooks, l)
	}
	return nil
}

// detach stops the programs in the kernel. The reports that they have made can still be read.
func (k *kernel) detach() error {
	var errs []error
	for _, l := range k.hooks {
		errs = append(errs, l.Close())
	}
	k.hooks = nil
	return errors.Join(errs...)
}

func (k *kernel) close() error {
	err := k.detach()
	if k.reader != nil {
		err = errors.Join(err, k.reader.Close())
	}
	err = errors.Join(err, k.shared.close())
	k.programs.Close()
	return err
}

// lostMessages returns how many messages the programs have seen but could not report.
func (k *kernel) lostMessages() (n uint64) {
	n = k.shared.unreported.Load()
	for i := range k.sizes.processors * k.sizes.rings {
		if i%k.sizes.rings != wokeRing {
			n += k.shared.lost(i)
		}
	}
	return n
}

// lostWakes returns how many wake-ups the programs have seen but could not report.
func (k *kernel) lostWakes() (n uint64) {
	for i := wokeRing; k.also.Threads && i < k.sizes.processors*k.sizes.rings; i += k.sizes.rings {
		n += k.shared.lost(i)
	}
	return n
}

// describeAgain makes the programs describe every socket again, before its next message.
func (k *kernel) describeAgain() error {
	var round uint64
	m := k.programs.Maps[mapRound]
	err := m.Lookup(uint32(0), &round)
	if err == nil {
		err = m.Put(uint32(0), round+1)
	}
	clear(k.shared.sockets)
	return err
}

// nameAgain makes the programs name every thread again, before its next message.
func (k *kernel) nameAgain() { clear(k.shared.threads) }

// description is what the programs report about a socket.
type description struct {
	cookie, peer          uint64
	local6, remote6       [16]byte
	local4, remote4       [4]byte
	localPort, remotePort uint16
	family, protocol      uint16
	kind                  uint16 // type of the socket
	start                 uint16 // the first byte that was sent comes so much after the beginning
	namespace             uint32
	sends, receives       uint32 // sequence numbers
	sent, received        uint64 // number of bytes before them
}

// name is what the eBPF programs report about a thread: its numbers and names.
type name struct {
	thread, process uint32
	own, program    string
	groups          string // path of the cgroup; at most its last part and the ones above it
}

// happening is what the programs report about events that are not messages. Its fields are at the
// offsets that layout.go gives for a happening.
type happening struct {
	stamp_ns uint64
	cookie   uint64
	what     uint32
	thread   uint32
	other    uint32
	process  uint32
	sequence uint32
	bytes    uint32
}

var _ = [1]struct{}{}[unsafe.Sizeof(happening{})-happeningBytes]

// reportTaker receives the reports of the programs.
type reportTaker struct {
	described func(description)
	named     func(name)
	seen      func(s sighting, ring int)
	happened  func(happening)
}

// drain passes the reports of the programs to a taker, at most limit sightings of each ring. It
// returns true if there may be more.
//
// A thread may have used the rings of several processors, so its messages may come in the wrong
// order. But all messages with stamps until complete_ns have come.
func (k *kernel) drain(limit int, to reportTaker) (more bool, complete_ns uint64, err error) {
	// A report that is made from now on may reach its ring just before or just after the ring's end
	// is read.
	complete_ns = uint64(nanotime())
	ends := k.shared.ringEnds(limit)
	// Descriptions and names were reported before the sightings that need them.
	if err := k.drainRare(to); err != nil {
		return false, complete_ns, err
	}
	for i, end := range ends {
		var last_ns uint64
		n := k.shared.takeSightings(i, end, func(s sighting, ring int) {
			last_ns = s.stamp_ns
			to.seen(s, ring)
		})
		if n == limit {
			more, complete_ns = true, min(complete_ns, last_ns)
		}
	}
	return more, complete_ns, nil
}

func (k *kernel) drainRare(to reportTaker) error {
	if k.reader.AvailableBytes() == 0 {
		return nil // without a system call
	}
	// The deadline is in the past, so the reader does not wait.
	k.reader.SetDeadline(time.Unix(1, 0))
	for {
		switch err := k.reader.ReadInto(&k.record); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return fmt.Errorf("read what the kernel saw: %w", err)
		}
		switch b := k.record.RawSample; len(b) {
		case nameBytes:
			to.named(parseName(b))
		case descriptionBytes:
			to.described(parseDescription(b))
		case happeningBytes:
			to.happened(*(*happening)(unsafe.Pointer(unsafe.SliceData(b))))
		}
	}
}

func parseName(b []byte) name {
	thread := binary.NativeEndian.Uint64(b[nameThread:])
	n := name{
		thread: uint32(thread), process: uint32(thread >> 32),
		own:     textBeforeZero(b[nameOwn:nameProgram], 15),
		program: textBeforeZero(b[nameProgram:nameGroups], 15),
	}
	for at := nameGroups; at < nameBytes; at += groupBytes {
		if group := textBeforeZero(b[at:at+groupBytes], groupBytes); group != "" {
			n.groups = "/" + group + n.groups
		}
	}
	return n
}

func parseDescription(b []byte) description {
	u16 := func(at int) uint16 { return binary.NativeEndian.Uint16(b[at:]) }
	return description{
		cookie: binary.NativeEndian.Uint64(b[descriptionCookie:]),
		peer:   binary.NativeEndian.Uint64(b[descriptionPeer:]),
		local6: [16]byte(b[descriptionLocal6:]), remote6: [16]byte(b[descriptionRemote6:]),
		local4: [4]byte(b[descriptionLocal4:]), remote4: [4]byte(b[descriptionRemote4:]),
		localPort:  u16(descriptionLocalPort),
		remotePort: binary.BigEndian.Uint16(b[descriptionRemotePort:]),
		family:     u16(descriptionFamily), protocol: u16(descriptionProtocol),
		kind: u16(descriptionType), start: u16(descriptionStart),
		sends:     binary.NativeEndian.Uint32(b[descriptionSends:]),
		receives:  binary.NativeEndian.Uint32(b[descriptionReceives:]),
		sent:      binary.NativeEndian.Uint64(b[descriptionSent:]),
		received:  binary.NativeEndian.Uint64(b[descriptionReceived:]),
		namespace: binary.NativeEndian.Uint32(b[descriptionNamespace:]),
	}
}

// Check returns an error that says why a capture is not possible here, and what to do. The result
// early says whether the kernel shows when a call that sends over TCP begins. Check loads the
// programs, and removes them again without running them.
func Check() (early bool, err error) {
	k, err := load(0, Options{})
	if err != nil {
		return false, err
	}
	return k.early, k.close()
}
