package host

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// RestoreEvents counts how often this virtual machine was restored from a snapshot or cloned. At a
// restore, the hypervisor gives the machine a new generation id, and the kernel announces that the
// id has changed. Programs cannot read the id, so they cannot learn of restores before
// ListenRestores. Listening needs no privilege. But the kernel sends no announcements to a network
// namespace that does not belong to the initial user namespace. Linux announces restores since
// about 6.8, with CONFIG_VMGENID. Only one goroutine may use a RestoreEvents at a time.
type RestoreEvents struct {
	fd    int
	count uint64
	lost  bool
}

// ListenRestores begins to listen. The caller must close the result.
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

// Count reads the announcements that have arrived, without waiting for more. It returns how many
// restores were announced since ListenRestores, and whether announcements were lost.
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
		// Port 0 is the kernel. Other senders may lie.
		sender, ok := from.(*unix.SockaddrNetlink)
		if ok && sender.Pid == 0 && isRestore(buffer[:n]) {
			r.count++
		}
	}
}

// Close stops listening.
func (r *RestoreEvents) Close() error { return unix.Close(r.fd) }

// isRestore reports whether a datagram contains the variable that Linux's vmgenid driver sends. A
// datagram consists of fields KEY=VALUE, each ended by a zero byte.
func isRestore(datagram []byte) bool {
	for field := range bytes.SplitSeq(datagram, []byte{0}) {
		if strings.HasPrefix(string(field), "NEW_VMGENID=") {
			return true
		}
	}
	return false
}
