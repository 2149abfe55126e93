package replay

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// maxOpenLogs is how many files of logs a run keeps open. A run may have more logs than a process
// may have descriptors.
const maxOpenLogs = 64

// openLogs are the files of logs that are open at present, in the order in which they were opened.
type openLogs []*closableLog

// closableLog is read like a logstore.File, but its file may be closed between two reads.
type closableLog struct {
	*logstore.File
	path string
	all  *openLogs
	file *os.File // nil: closed
}

// open opens a log. The caller must call the log's method close. It closes the file if it is open,
// and removes it from the open logs.
func (all *openLogs) open(path string) (*closableLog, error) {
	l := &closableLog{path: path, all: all}
	if err := l.reopen(); err != nil {
		return nil, err
	}
	info, err := l.file.Stat()
	if err == nil {
		l.File, err = logstore.NewFile(l, info.Size(), path)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// reopen opens the file, and closes the file that was opened first if too many are open.
func (l *closableLog) reopen() (err error) {
	if len(*l.all) == maxOpenLogs {
		if err := (*l.all)[0].close(); err != nil {
			return err
		}
	}
	if l.file, err = plainfile.Open(l.path); err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	*l.all = append(*l.all, l)
	return nil
}

// ReadAt is what logstore reads with.
func (l *closableLog) ReadAt(b []byte, offset int64) (int, error) {
	if l.file == nil {
		if err := l.reopen(); err != nil {
			return 0, err
		}
	}
	return l.file.ReadAt(b, offset)
}

// close closes the file, if it is open.
func (l *closableLog) close() error {
	at := slices.Index(*l.all, l)
	if at < 0 {
		return nil
	}
	*l.all = slices.Delete(*l.all, at, at+1)
	err := l.file.Close()
	l.file = nil
	return err
}
