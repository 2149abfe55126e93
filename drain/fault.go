package drain

import (
	"io/fs"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// FaultPoint names a place at which a drainer's death is tested.
type FaultPoint string

const (
	BeforeWrite  FaultPoint = "before-write"  // nothing of a block is in the file
	TornWrite    FaultPoint = "torn-write"    // half of what is written at once is in the file
	AfterWrite   FaultPoint = "after-write"   // the block is in the file, the ring's head is not moved
	AfterHead    FaultPoint = "after-head"    // the head is moved
	AtRotation   FaultPoint = "at-rotation"   // a segment is about to be begun; the one before it is sealed
	SegmentBegun FaultPoint = "segment-begun" // it has its name and its header, and no block
	BeforeSeal   FaultPoint = "before-seal"   // everything of a ring is in its log, which is not sealed
	AfterSeal    FaultPoint = "after-seal"    // it is sealed, the ring is there
	AfterRemove  FaultPoint = "after-remove"  // the ring is gone
)

// FaultPoints lists them all.
func FaultPoints() []FaultPoint {
	return []FaultPoint{BeforeWrite, TornWrite, AfterWrite, AfterHead, AtRotation, SegmentBegun, BeforeSeal, AfterSeal, AfterRemove}
}

func (d *Drainer) fault(p FaultPoint) {
	if d.o.Fault != nil {
		d.o.Fault(p)
	}
}

// faultSystem calls at the points that lie between calls of the system.
type faultSystem struct {
	logstore.FileSystem
	fault func(FaultPoint)
}

func (s faultSystem) OpenFile(path string, flag int, mode fs.FileMode) (logstore.WriterFile, error) {
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
