package host

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// RestoreEvents counts the kernel's announcements that a hypervisor gave the machine a new
// generation id: the machine was restored from a snapshot or cloned. Programs cannot read the id,
// so a restore that happens before ListenRestores is not seen. Listening needs no privilege. The
// kernel sends no announcements to network namespaces that belong to a user namespace other than
// the first. Kernels announce restores since about 6.8, with CONFIG_VMGENID. A RestoreEvents is not
// safe for concurrent use.
type RestoreEvents struct {
	fd    int
	count uint64
	lost  bool
}

// ListenRestores begins to listen. The caller closes the result.
func ListenRestores() (*RestoreEvents, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("listen for restores: open socket: %w", err)
	}
	const kernelGroup = 1
	address := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}
	if err := unix.Bind(fd, address); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen for restores: bind: %w", err)
	}
	return &RestoreEvents{fd: fd}, nil
}

// Count reads the announcements that have arrived, without waiting. It returns the number of
// restores announced so far, and whether announcements were lost.
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
		// Port 0 is the kernel. Any other sender may lie.
		sender, ok := from.(*unix.SockaddrNetlink)
		if ok && sender.Pid == 0 && isRestore(buffer[:n]) {
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
