package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// ringDirectory reports whether programs can make rings in their directory.
func (m Machine) ringDirectory() host.Finding {
	err := m.CheckRings(m.Rings)
	switch {
	case err == nil:
		return host.Finding{Name: "ring directory",
			Verdict: host.Fit, Detail: m.Rings + " belongs to this user and is closed to others"}
	case errors.Is(err, fs.ErrNotExist):
		return host.Finding{Name: "ring directory",
			Verdict: host.Fit, Detail: m.Rings + " does not exist yet: the first program that " +
				"logs makes it"}
	}
	return host.Finding{
		Name: "ring directory", Verdict: host.Unfit, Detail: err.Error(),
		Remedy: "programs could not open a channel; make a directory that only this user may " +
			"write to and name it in " + ring.DirectoryVariable,
	}
}

// enoughBytes is enough memory for some dozens of channels with rings of the default length.
const enoughBytes = 256 << 20

// sharedMemory reports whether the rings are in memory, and whether enough memory is free.
func (m Machine) sharedMemory() host.Finding {
	// A directory that does not exist yet will be on the file system of the nearest directory above
	// it.
	at := m.Rings
	held, err := m.Filesystem(at)
	for err != nil && errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
		at = filepath.Dir(at)
		held, err = m.Filesystem(at)
	}
	f := host.Finding{Name: "shared memory"}
	size := fmt.Sprintf("%s of %s free at %s", megabytes(held.Free), megabytes(held.Bytes), at)
	switch {
	case err != nil:
		f.Verdict, f.Detail = host.Unknown, err.Error()
	case !held.Memory:
		f.Verdict, f.Detail = host.Warning, at+" is not in memory: sometimes a log call waits "+
			"while the kernel writes its page back"
		f.Remedy = "use a tmpfs: /dev/shm, or name another in " + ring.DirectoryVariable
	case held.Free < enoughBytes:
		f.Verdict, f.Detail = host.Warning, size+": a channel takes 1 MiB unless its program "+
			"says otherwise, and a channel without room logs nothing"
		f.Remedy = "give more: a container has 64 MB unless started with --shm-size, or with a " +
			"directory of the host's mounted and named in " + ring.DirectoryVariable
	default:
		f.Verdict, f.Detail = host.Fit, size
	}
	return f
}

func megabytes(bytes uint64) string { return fmt.Sprintf("%d MiB", bytes>>20) }
