package host

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// RestoreEvents counts what the kernel announces when a hypervisor gives the machine a new
// generation id: it was restored from a snapshot or cloned. The id itself cannot be read by
// programs, so a restore from before listening stays unseen. It needs no privilege; the kernel
// sends nothing to network namespaces that belong to a user namespace other than the first. Kernels
// announce it since about 6.8, with CONFIG_VMGENID. Not safe for concurrent use.
type RestoreEvents struct {
	fd    int
	count uint64
	lost  bool
}

// ListenRestores begins to listen. Close it.
func ListenRestores() (*RestoreEvents, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("listen for restores: open socket: %w", err)
	}
	const kernelGroup = 1
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen for restores: bind: %w", err)
	}
	return &RestoreEvents{fd: fd}, nil
}

// Count reads what has arrived, without waiting, and returns how many restores were announced so
// far and whether announcements were lost.
func (r *RestoreEvents) Count() (restores uint64, lost bool, err error) {
	buffer := make([]byte, 8192)
	for {
		n, from, err := unix.Recvfrom(r.fd, buffer, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return r.count, r.lost, nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS):
			r.lost = true
			continue
		case err != nil:
			return r.count, r.lost, fmt.Errorf("read restore announcements: %w", err)
		}
		// Port 0 is the kernel; anybody else may be lying.
		if sender, ok := from.(*unix.SockaddrNetlink); ok && sender.Pid == 0 && isRestore(buffer[:n]) {
			r.count++
		}
	}
}

// Close stops listening.
func (r *RestoreEvents) Close() error { return unix.Close(r.fd) }

// isRestore looks for the variable that Linux's vmgenid driver sends, among KEY=VALUE fields that
// end with zero bytes.
func isRestore(datagram []byte) bool {
	for field := range bytes.SplitSeq(datagram, []byte{0}) {
		if strings.HasPrefix(string(field), "NEW_VMGENID=") {
			return true
		}
	}
	return false
}
