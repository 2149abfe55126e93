package drain

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// Options say how to drain. The zero value drains into DefaultLogs with each program's own
// settings.
type Options struct {
	// Logs is the directory of the log files. It is created if it does not exist. "" means
	// DefaultLogs.
	Logs string

	// Before are directories, the latest first, in which logs may have been begun that continue in
	// Logs: see SetLogs.
	Before []string

	// MaxBytes is how many bytes Logs may hold. MinFree is the share of its file system that must
	// stay free, 0 to 1. When either limit is reached, records are taken from the rings but not
	// stored. The programs go on, and the log says how many records are missing and where. 0: no
	// limit.
	MaxBytes int64
	MinFree  float64

	// MaxProcessRings and MaxProcessBytes limit the rings of one process. Rings beyond them are
	// left alone until other rings of the process are gone. The policy of each ring decides what
	// happens to its events. 0: no limit.
	MaxProcessRings int
	MaxProcessBytes int64

	// Node is the node's name, for the headers of logs and for the handler table. "" means the
	// host's name.
	Node string

	// Epoch names the span in which the counter runs unbroken now, for the headers of logs. Several
	// goroutines call it before each block, so it should be quick. When it names another span, the
	// log continues in another segment. nil, and "", mean the kernel's boot id, which tells boots
	// apart, but not suspends or migrations. Rings from before this boot always get the epoch of
	// their own boot.
	Epoch func() string

	// These describe the node's counter, for the headers of logs. 0: unknown.
	Quantum_cycles   uint64
	CoreSlack_cycles uint64

	// Table is the handler table. TableFile is the file of one, which is checked again and again.
	// At most one of them may be set. Without either, settings stay as they are.
	Table     *handlertable.Table
	TableFile string

	// Workers is how many rings are drained at once. 0 means one for every four cores, at least 1
	// and at most 4.
	Workers int

	// Poll is the longest time between two looks at a ring. When nothing has come for a second it
	// doubles, and after three seconds it doubles again. 0 means DefaultPoll.
	Poll time.Duration

	// SegmentBytes is the length at which a log file is full. 0 means logstore.SegmentLimit.
	SegmentBytes int64

	// FileSystem is where logs are written. nil means the operating system's.
	FileSystem logstore.FileSystem

	// Notify is told once of each ring that is set aside, each log that cannot be written, and each
	// table that cannot be used. Several goroutines call it, and it must not call the Drainer.
	// Stats reports the same.
	Notify func(error)

	// Asked is called when a program has asked for a snapshot, before this directory's is taken. It
	// lets other nodes take theirs. It should return soon. nil: nobody else is told.
	Asked func()

	// Fault is called at each FaultPoint. Tests use it to see what a death there leaves. nil costs
	// nothing.
	Fault func(FaultPoint)
}

const (
	// DefaultLogs is where logs are written unless Options.Logs is set. It is relative to the
	// working directory.
	DefaultLogs = "cloudprofiler-logs"

	// DefaultPoll is how long a ring may go without a look. It decides what an idle drainer costs,
	// and how long a burst after silence may wait.
	DefaultPoll = 20 * time.Millisecond

	// WorkerBytes is about how much memory a worker takes: a block of records, and the buffers for
	// encoding it.
	WorkerBytes = 8 << 20

	// Events of handler id are in the file at most this long after they were seen, and others this
	// long. Until then they gather, so that blocks are long.
	identityHold = 50 * time.Millisecond
	blockHold    = time.Second

	// tick is how often things are checked that change rarely: the owner, the settings, the
	// journal.
	tick = 200 * time.Millisecond

	// rescanEvery is how often the directory is read if no change is known.
	rescanEvery = time.Second

	// tablePoll is how often the table's file is read.
	tablePoll = 250 * time.Millisecond

	// Log files that cannot be written are tried again after the first of these times. The wait
	// grows up to the second. A program with policy block waits for a second.
	retryFirst = 20 * time.Millisecond
	retryLast  = 300 * time.Millisecond

	// partAge is how long an unfinished ring may be without a lock before it counts as abandoned.
	partAge = 10 * time.Second

	// lookRecords is how many records one look takes from a ring, or at least leastRecords if many
	// rings have more. A block counts as blockRecords at least. So the others of a worker wait for
	// some rings for milliseconds only, whatever these hold.
	lookRecords  = 2 * logstore.MaxRows
	leastRecords = 1 << 13
	blockRecords = 1 << 9

	// yieldsOfPass is how many rings are left in a pass so that others have room. Each must end its
	// log.
	yieldsOfPass = 8

	// holeRecords is how many records that were never written are examined at once.
	holeRecords = 1 << 18

	// maxAside is how many rings that were set aside are described. More are counted.
	maxAside = 1000

	// dumpRecords is how many records of a flight recorder are copied at once. The rest may be
	// overwritten while these are written.
	dumpRecords = 1 << 22
)

func (o Options) normalise() (Options, error) {
	if o.Logs == "" {
		o.Logs = DefaultLogs
	}
	if o.Node == "" {
		name, err := os.Hostname()
		if err != nil {
			return o, fmt.Errorf("name of this node: set Options.Node: %w", err)
		}
		o.Node = name
	}
	if o.Epoch == nil {
		o.Epoch = BootEpoch
	}
	if o.Table != nil && o.TableFile != "" {
		return o, fmt.Errorf("both a handler table and the file %q of one are given: set one",
			o.TableFile)
	}
	if o.Table != nil {
		if err := o.Table.Validate(); err != nil {
			return o, err
		}
	}
	if o.Workers == 0 {
		o.Workers = min(max(runtime.GOMAXPROCS(0)/4, 1), 4)
	}
	if o.Workers < 0 {
		return o, fmt.Errorf("%d workers: use 1 or more", o.Workers)
	}
	if o.Poll == 0 {
		o.Poll = DefaultPoll
	}
	if o.Poll < time.Millisecond || o.Poll > identityHold/2 {
		return o, fmt.Errorf("poll interval %s: use %s to %s",
			o.Poll, time.Millisecond, identityHold/2)
	}
	if o.SegmentBytes < 0 {
		return o, fmt.Errorf("segments of %d bytes: use 1 or more, or 0 for %d", o.SegmentBytes,
			logstore.SegmentLimit)
	}
	if o.MaxBytes < 0 || o.MinFree < 0 || o.MinFree >= 1 || o.MaxProcessRings < 0 ||
		o.MaxProcessBytes < 0 {
		return o, fmt.Errorf("limits of %d bytes, %g free, %d rings and %d bytes a process: use "+
			"0 or more, and less than 1 free", o.MaxBytes, o.MinFree, o.MaxProcessRings,
			o.MaxProcessBytes)
	}
	if o.FileSystem == nil {
		o.FileSystem = logstore.OS{}
	}
	if o.Fault != nil {
		o.FileSystem = faultSystem{o.FileSystem, o.Fault}
	}
	return o, nil
}

// BootEpoch names the epoch if only boots can be told apart: by the kernel's boot id. If the kernel
// gives none, the epoch is that of this process only.
func BootEpoch() string {
	if boot := ring.Boot(); boot != ([16]byte{}) {
		return epochOf(boot)
	}
	return processEpoch()
}

var processEpoch = sync.OnceValue(func() string { return unknownBoot + "process " + rand.Text() })

// unknownBoot begins the names of epochs that no other ring or process shares, and that relate to
// nothing.
const unknownBoot = "boot unknown, "

func epochOf(boot [16]byte) string { return "boot " + hex.EncodeToString(boot[:]) }

// epochNow returns the epoch of events that a ring logs now.
func (o *Options) epochNow(h ring.Header) string {
	switch h.Boot {
	case ring.Boot():
	case [16]byte{}:
		return unknownBoot + "ring " + h.IncarnationText()
	default:
		return epochOf(h.Boot) // nothing is logged any more
	}
	if epoch := o.Epoch(); epoch != "" {
		return epoch
	}
	return BootEpoch()
}

// logHeader returns the header of a ring's log.
func (o *Options) logHeader(h ring.Header, settings channel.Settings) logstore.Header {
	epoch := o.epochNow(h)
	return logstore.Header{
		Node: o.Node, NodeNumber: h.NodeNumber, Epoch: epoch,
		Channel: h.Name, Settings: settings, Policy: h.Policy, Stamp: h.Stamp,
		Incarnation: h.Incarnation, ProcessID: h.ProcessID,
		Quantum_cycles: o.Quantum_cycles, CoreSlack_cycles: o.CoreSlack_cycles,
		Counter: h.OpenedCounter, UTCLo_ns: h.OpenedEarliest.UnixNano(),
		UTCHi_ns: h.OpenedLatest.UnixNano(),
	}
}
