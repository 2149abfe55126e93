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
	// Logs is the directory of the log files. If it does not exist, the drainer creates it. ""
	// means DefaultLogs.
	Logs string

	// Before lists earlier log directories, the latest first. The drainer may have to continue logs
	// of these directories in Logs: see SetLogs.
	Before []string

	// MaxBytes is the largest number of bytes in Logs. MinFree is the share of Logs' file system
	// that must stay free, 0 to 1. When either limit is reached, the drainer takes records from the
	// rings but does not store them. The programs continue, and the log says how many records are
	// missing and where. 0: no limit.
	MaxBytes int64
	MinFree  float64

	// MaxProcessRings and MaxProcessBytes limit the rings of one process. Rings above a limit are
	// not drained until other rings of the process are gone. Meanwhile the policy of each of these
	// rings decides what happens to its events. 0: no limit.
	MaxProcessRings int
	MaxProcessBytes int64

	// Node is the node's name, for the headers of logs and for the handler table. "" means the
	// host's name.
	Node string

	// Epoch returns the name of the counter's present epoch, for the headers of logs. Each worker
	// calls Epoch before it writes a block, so Epoch should be quick. When the name changes, the
	// log continues in another segment.
	//
	// If Epoch is nil or returns "", the drainer names the epoch after the kernel's boot id, which
	// changes at a boot, but not at a suspend or a migration. Rings from before this boot always
	// get the epoch of their own boot.
	Epoch func() string

	// Place says where a process runs, such as "pod shop/cart-1", for the headers of logs. The
	// arguments are what the program wrote into its ring. nil: the headers do not say where
	// processes run.
	Place func(pidNamespace uint64, processID int) string

	// Quantum_cycles and the fields after it describe the node's counter, for the headers of logs.
	// 0: unknown.
	Quantum_cycles   uint64
	CoreSlack_cycles uint64

	// The handler table is either Table, or the content of the file TableFile, which the drainer
	// reads again whenever it changes. At most one of the two may be set. If both are empty,
	// settings stay as they are.
	Table     *handlertable.Table
	TableFile string

	// Workers is the number of workers. Each drains some of the rings, one ring at a time. 0 means
	// one worker for every four cores, but at least 1 and at most 4.
	Workers int

	// Poll is the longest time until a worker looks at a ring again. If a worker has seen no
	// records for a second, this time doubles, and after three seconds it doubles again. 0 means
	// DefaultPoll.
	Poll time.Duration

	// SegmentBytes is the length at which the drainer ends a log file and begins another. 0 means
	// logstore.SegmentLimit.
	SegmentBytes int64

	// FileSystem is the file system on which the drainer writes logs. nil means the operating
	// system's.
	FileSystem logstore.FileSystem

	// The drainer calls Notify once for each ring that it sets aside, each log that it cannot
	// write, and each table that it cannot use. Several goroutines call Notify, and it must not
	// call the Drainer. Stats reports the same errors.
	Notify func(error)

	// Asked is called when a program has asked for a snapshot, before the drainer takes a snapshot
	// of its own rings. Asked can make other nodes take snapshots too, and should return soon. nil:
	// the drainer only takes its own snapshot.
	Asked func()

	// Fault is called at each FaultPoint. Tests use it to check what a drainer leaves if it dies
	// there. nil: nothing is called.
	Fault func(FaultPoint)
}

const (
	// DefaultLogs is the log directory unless Options.Logs is set. It is relative to the working
	// directory.
	DefaultLogs = "cloudprofiler-logs"

	// DefaultPoll is the default of Options.Poll. It determines the cost of an idle drainer, and
	// how long a burst after silence may wait.
	DefaultPoll = 20 * time.Millisecond

	// WorkerBytes is roughly the memory that a worker takes: a block of records, and the buffers
	// for encoding the block.
	WorkerBytes = 8 << 20

	// An event waits in the ring for at most identityHold if the channel has the handler "id", and
	// for at most blockHold if the channel has another handler. Events wait so that each block gets
	// many of them.
	identityHold = 50 * time.Millisecond
	blockHold    = time.Second

	// checkPeriod is the time between two checks of things that rarely change: whether the program
	// is alive, the settings, and the ring's journal of changed settings.
	checkPeriod = 200 * time.Millisecond

	// rescanEvery is the time after which the drainer reads the directory again, even if it knows
	// of no change.
	rescanEvery = time.Second

	// tablePoll is the time between two checks of the table's file.
	tablePoll = 250 * time.Millisecond

	// After a failure to write a log file, the drainer tries again after retryFirst. Each further
	// failure doubles the wait, up to retryLast. A program with policy block waits for one second,
	// which is much longer than retryLast.
	retryFirst = 20 * time.Millisecond
	retryLast  = 300 * time.Millisecond

	// partAge is the time after which the drainer treats an unfinished ring without a lock as
	// abandoned.
	partAge = 10 * time.Second

	// Each time that a worker looks at a ring, it takes at most lookRecords records. If many rings
	// have more records than that, the limit for each is lower, but not below leastRecords. A block
	// of fewer than blockRecords records counts as blockRecords records here, because a short block
	// takes time, too. So no ring keeps a worker busy for more than some milliseconds, however many
	// records it contains, and the worker's other rings do not wait long.
	lookRecords  = 2 * logstore.MaxRows
	leastRecords = 1 << 13
	blockRecords = 1 << 9

	// yieldsOfPass is the largest number of rings that a worker gives up in one pass so that other
	// rings have room. To give up a ring, the worker must end the ring's log, which takes time.
	yieldsOfPass = 8

	// holeRecords is the number of never-written records that a worker examines at once.
	holeRecords = 1 << 18

	// maxAside is the number of set-aside rings that Stats describes. Further ones are only
	// counted.
	maxAside = 1000

	// dumpRecords is the largest number of records that a snapshot copies from a flight recorder.
	// The snapshot copies the newest records and leaves out older ones.
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

// BootEpoch names the epoch by the kernel's boot id, so only a boot begins a new epoch. If the
// kernel gives no boot id, the epoch is valid only in this process.
func BootEpoch() string {
	if boot := ring.Boot(); boot != ([16]byte{}) {
		return epochOf(boot)
	}
	return processEpoch()
}

var processEpoch = sync.OnceValue(func() string { return unknownBoot + "process " + rand.Text() })

// unknownBoot is the beginning of the name of an epoch that belongs to a single ring or process.
// There are no relations for such an epoch.
const unknownBoot = "boot unknown, "

func epochOf(boot [16]byte) string { return "boot " + hex.EncodeToString(boot[:]) }

// epochNow returns the epoch of events that are logged to a ring now.
func (o *Options) epochNow(h ring.Header) string {
	switch h.Boot {
	case ring.Boot():
	case [16]byte{}:
		return unknownBoot + "ring " + h.IncarnationText()
	default:
		return epochOf(h.Boot) // nobody logs to a ring from an earlier boot any more
	}
	if epoch := o.Epoch(); epoch != "" {
		return epoch
	}
	return BootEpoch()
}

// logHeader returns the header of a ring's log.
func (o *Options) logHeader(
	h ring.Header, settings channel.Settings, place string,
) logstore.Header {
	epoch := o.epochNow(h)
	return logstore.Header{
		Node: o.Node, NodeNumber: h.NodeNumber, Epoch: epoch,
		Channel: h.Name, Settings: settings, Policy: h.Policy, Stamp: h.Stamp,
		Incarnation: h.Incarnation, ProcessID: h.ProcessID, Place: place,
		Quantum_cycles: o.Quantum_cycles, CoreSlack_cycles: o.CoreSlack_cycles,
		Counter: h.OpenedCounter, UTCLo_ns: h.OpenedEarliest.UnixNano(),
		UTCHi_ns: h.OpenedLatest.UnixNano(),
	}
}
