package drain

import (
	"io/fs"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// FaultPoint names a place in the drainer. Tests make the drainer die there.
type FaultPoint string

const (
	BeforeWrite  FaultPoint = "before-write"  // nothing of a block is in the file
	TornWrite    FaultPoint = "torn-write"    // half of one write is in the file
	AfterWrite   FaultPoint = "after-write"   // the block is in the file, the head has not moved
	AfterHead    FaultPoint = "after-head"    // the ring's head has moved
	AtRotation   FaultPoint = "at-rotation"   // a segment is sealed, the next is not begun
	SegmentBegun FaultPoint = "segment-begun" // the segment has its name and header, but no block
	BeforeSeal   FaultPoint = "before-seal"   // the log has the whole ring, but is not sealed
	AfterSeal    FaultPoint = "after-seal"    // the log is sealed, but the ring still exists
	AfterRemove  FaultPoint = "after-remove"  // the ring is removed
)

// FaultPoints lists all fault points.
func FaultPoints() []FaultPoint {
	return []FaultPoint{
		BeforeWrite, TornWrite, AfterWrite, AfterHead, AtRotation, SegmentBegun, BeforeSeal,
		AfterSeal, AfterRemove,
	}
}

func (d *Drainer) fault(p FaultPoint) {
	if d.o.Fault != nil {
		d.o.Fault(p)
	}
}

// faultSystem is a file system that reports the fault points between its system calls.
type faultSystem struct {
	logstore.FileSystem
	fault func(FaultPoint)
}

func (s faultSystem) OpenFile(path string, flag int,
	mode fs.FileMode) (logstore.WriterFile, error) {
	if strings.HasSuffix(path, ".new") {
		s.fault(AtRotation)
	}
	f, err := s.FileSystem.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return faultFile{f, s.fault}, nil
}

func (s faultSystem) Rename(from, to string) error {
	err := s.FileSystem.Rename(from, to)
	if err == nil {
		s.fault(SegmentBegun)
	}
	return err
}

type faultFile struct {
	logstore.WriterFile
	fault func(FaultPoint)
}

func (f faultFile) WriteAt(b []byte, offset int64) (int, error) {
	half := len(b) / 2
	if n, err := f.WriterFile.WriteAt(b[:half], offset); err != nil || n < half {
		return n, err
	}
	f.fault(TornWrite)
	n, err := f.WriterFile.WriteAt(b[half:], offset+int64(half))
	return half + n, err
}
