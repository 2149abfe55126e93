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

// socketTick is the time between two checks of whether the agent's socket still exists.
const socketTick = time.Second

// openSocket makes the agent's socket in the directory of rings.
func (a *Agent) openSocket() (*net.UnixListener, fs.FileInfo, error) {
	path := filepath.Join(a.c.Rings, SocketName)
	// A killed agent leaves its socket. This agent has the lock of the directory, so no other agent
	// uses that socket.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("make the agent's socket: %w", err)
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, nil, fmt.Errorf("make the agent's socket: %w: use a shorter path for the rings",
			err)
	}
	// Close must not remove the name of this socket, because the name may lead to another agent's
	// socket by then.
	socket.SetUnlinkOnClose(false)
	// Until this call, mode 700 of the directory keeps other users out.
	err = os.Chmod(path, 0o600)
	info, statErr := os.Lstat(path)
	if err = errors.Join(err, statErr); err != nil {
		socket.Close()
		return nil, nil, fmt.Errorf("make the agent's socket: %w", err)
	}
	return socket, info, nil
}

// keepSocket makes a new socket whenever somebody has removed the agent's socket, as systemd does
// at a logout. It returns when ctx ends.
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
			continue // the socket exists, or another agent may have the directory now
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
