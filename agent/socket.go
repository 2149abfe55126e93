package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// socketTick is how often the agent checks whether its socket is still there.
const socketTick = time.Second

// openSocket makes the agent's socket in the directory of rings.
func (a *Agent) openSocket() (*net.UnixListener, fs.FileInfo, error) {
	path := filepath.Join(a.c.Rings, SocketName)
	// A killed agent leaves its socket behind. This agent has the lock of the directory, so no
	// other agent uses the socket.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("make the agent's socket: %w", err)
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, nil, fmt.Errorf("make the agent's socket: %w: use a shorter path for the rings",
			err)
	}
	socket.SetUnlinkOnClose(false) // by then the name may lead to another agent's socket
	// Until this call, the directory's mode, 700, keeps other users out.
	err = os.Chmod(path, 0o600)
	info, statErr := os.Lstat(path)
	if err = errors.Join(err, statErr); err != nil {
		socket.Close()
		return nil, nil, fmt.Errorf("make the agent's socket: %w", err)
	}
	return socket, info, nil
}

// keepSocket makes a new socket whenever somebody has removed it, as systemd does at a logout,
// until ctx ends.
func (a *Agent) keepSocket(ctx context.Context, server *http.Server, socket *net.UnixListener,
	made fs.FileInfo) {
	ticker := time.NewTicker(socketTick)
	defer ticker.Stop()
	path, failed := filepath.Join(a.c.Rings, SocketName), false
	for {
		select {
		case <-ctx.Done():
			if isThere(path, made) {
				os.Remove(path)
			}
			return
		case <-ticker.C:
		}
		if isThere(path, made) || a.drainer.Stats().Lost != nil {
			continue // the directory may belong to another agent now
		}
		next, nextMade, err := a.openSocket()
		if err != nil {
			if !failed {
				a.notify(err)
			}
			failed = true
			continue
		}
		socket.Close()
		socket, made, failed = next, nextMade, false
		a.serve(server, socket)
	}
}

func isThere(path string, made fs.FileInfo) bool {
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(there, made)
}
