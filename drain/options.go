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

// Options say how to drain. The zero value drains into DefaultLogs with each program's own settings.
type Options struct {
	// Logs is the directory of the log files; it is made where it does not exist. "" is DefaultLogs.
	Logs string

	// Before are directories in which logs may have been begun that are to be gone on with in Logs, the latest first: see SetLogs.
	Before []string

	// MaxBytes is how much Logs may hold, and MinFree what part of its file system is to stay free, 0 to 1. Where either is reached records
	// are taken from the rings and not stored: the programs go on, and the log says how many are missing and where. 0: no bound.
	MaxBytes int64
	MinFree  float64

	// MaxProcessRings and MaxProcessBytes bound what the rings of one process are. Rings beyond are left alone until others of it
	// are gone; the policy of each decides what becomes of its events. 0: no bound.
	MaxProcessRings int
	MaxProcessBytes int64

	// Node is the node's name, in the headers of logs and for the handler table. "" is the host's name.
	Node string

	// Epoch names the span in which the counter runs unbroken now, for the headers of logs. It is asked before each block is written, by several
	// goroutines, so it should be quick: when it names another span, the log goes on in another segment. nil, and "", is the kernel's boot id,
	// which tells boots apart and not suspends or migrations. Rings from before this boot get theirs in any case.
	Epoch func() string

	// What is known of the node's counter, for the headers of logs. 0: not known.
	Quantum_cycles   uint64
	CoreSlack_cycles uint64

	// Table is the handler table, and TableFile the file of one, which is looked at again and again. At most one of them may be set;
	// with neither, settings are left as they are.
	Table     *handlertable.Table
	TableFile string

	// Workers is how many rings are drained at once. 0 is one for every four cores, at least 1 and at most 4.
	Workers int

	// Poll is the longest time between two looks at a ring; where nothing has come for a second, twice that, and after three seconds four times. 0 is DefaultPoll.
	Poll time.Duration

	// SegmentBytes is how long a log file becomes. 0 is logstore.SegmentLimit.
	SegmentBytes int64

	// FileSystem is where logs are written. nil is the operating system's.
	FileSystem logstore.FileSystem

	// Notify is told, once each, of rings that are set aside, of logs that cannot be written and of tables that cannot be
	// used. It is called from several goroutines and must not call the Drainer. nil: Stats has them too.
	Notify func(error)

	// Asked is called when a program has asked for a snapshot, before this directory's is taken: to have other nodes take theirs. It should
	// return soon. nil: nobody else is told.
	Asked func()

	// Fault is called at each FaultPoint. It is for tests of what a death there leaves. nil costs nothing.
	Fault func(FaultPoint)
}

const (
	// DefaultLogs is where logs are written unless Options.Logs is set: in the working directory.
	DefaultLogs = "cloudprofiler-logs"

	// DefaultPoll is how long a ring may go without a look. It is what an idle drainer costs, and what a burst after
	// silence may wait.
	DefaultPoll = 20 * time.Millisecond

	// WorkerBytes is about how much memory a worker takes: a block of records, and what encoding it needs.
	WorkerBytes = 8 << 20

	// Events of handler id are in the file this long after they were seen at the latest, and of others this long. Until
	// then they gather, so that blocks are long.
	identityHold = 50 * time.Millisecond
	blockHold    = time.Second

	// tick is how often what changes rarely is looked at: the owner, the settings, the journal.
	tick = 200 * time.Millisecond

	// rescanEvery is how often the directory is read though nothing is known to have changed.
	rescanEvery = time.Second

	// tablePoll is how often the table's file is read.
	tablePoll = 250 * time.Millisecond

	// Log files that cannot be written are tried again after the first of these, and up to the second as it goes on.
	// A program with policy block waits for a second.
	retryFirst = 20 * time.Millisecond
	retryLast  = 300 * time.Millisecond

	// partAge is how long a ring that is being made may be without a lock before it is taken for abandoned.
	partAge = 10 * time.Second

	// lookRecords is how many records are taken of a ring at one look, at least leastRecords
	// where many want more, and blockRecords what a block is counted for at the least. So what
	// some rings hold, and however it is made up, keeps the others of their worker waiting for
	// milliseconds.
	lookRecords  = 2 * logstore.MaxRows
	leastRecords = 1 << 13
	blockRecords = 1 << 9

	// yieldsOfPass is how many rings are left in a pass so that others have room. It takes a
	// log's end each.
	yieldsOfPass = 8

	// holeRecords is how many records that were never written are looked at in one go.
	holeRecords = 1 << 18

	// maxAside is how many rings that were set aside are described. More are counted.
	maxAside = 1000

	// dumpRecords is how many records of a flight recorder are copied out at once: what is left may be overwritten
	// while they are written down.
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
		return o, fmt.Errorf("both a handler table and the file %q of one are given: set one", o.TableFile)
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
		return o, fmt.Errorf("poll interval %s: use %s to %s", o.Poll, time.Millisecond, identityHold/2)
	}
	if o.SegmentBytes < 0 {
		return o, fmt.Errorf("segments of %d bytes: use 1 or more, or 0 for %d", o.SegmentBytes, logstore.SegmentLimit)
	}
	if o.MaxBytes < 0 || o.MinFree < 0 || o.MinFree >= 1 || o.MaxProcessRings < 0 || o.MaxProcessBytes < 0 {
		return o, fmt.Errorf("limits of %d bytes, %g free, %d rings and %d bytes a process: use 0 or more, and less than 1 free", o.MaxBytes, o.MinFree, o.MaxProcessRings, o.MaxProcessBytes)
	}
	if o.FileSystem == nil {
		o.FileSystem = logstore.OS{}
	}
	if o.Fault != nil {
		o.FileSystem = faultSystem{o.FileSystem, o.Fault}
	}
	return o, nil
}

// BootEpoch names the epoch where only boots can be told apart: by the kernel's boot id. Where
// the kernel tells none, it is the epoch of this process alone.
func BootEpoch() string {
	if boot := ring.Boot(); boot != ([16]byte{}) {
		return epochOf(boot)
	}
	return processEpoch()
}

var processEpoch = sync.OnceValue(func() string { return unknownBoot + "process " + rand.Text() })

// unknownBoot begins the names of epochs that are those of no other ring or process, and relate
// to nothing.
const unknownBoot = "boot unknown, "

func epochOf(boot [16]byte) string { return "boot " + hex.EncodeToString(boot[:]) }

// epochNow is the epoch that a ring's events are in when they are logged now.
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

// logHeader is the header of a ring's log.
func (o *Options) logHeader(h ring.Header, settings channel.Settings) logstore.Header {
	epoch := o.epochNow(h)
	return logstore.Header{
		Format: logstore.Compressed, Node: o.Node, NodeNumber: h.NodeNumber, Epoch: epoch,
		Channel: h.Name, Settings: settings, Policy: h.Policy, Stamp: h.Stamp, Incarnation: h.Incarnation, ProcessID: h.ProcessID,
		Quantum_cycles: o.Quantum_cycles, CoreSlack_cycles: o.CoreSlack_cycles,
		Counter: h.OpenedCounter, UTCLo_ns: h.OpenedEarliest.UnixNano(), UTCHi_ns: h.OpenedLatest.UnixNano(),
	}
}
