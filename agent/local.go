package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// ErrNoAgent is returned if no agent answers.
var ErrNoAgent = errors.New("no agent answers")

// A Local sends requests to this user's agent on this node, over the agent's socket. Any goroutine
// may use a Local.
type Local struct {
	path string
	http http.Client
}

// Connect finds the agent of a directory of rings. "" means the default directory. Connect sends no
// request yet. The error wraps ring.ErrDirectory if the directory cannot be trusted, and ErrNoAgent
// if the directory does not exist.
func Connect(rings string) (*Local, error) {
	if rings == "" {
		rings = ring.DefaultDirectory()
	}
	err := ring.CheckPrivate(rings, "ring directory", "--rings or $"+ring.DirectoryVariable)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("find the agent: there is no directory of rings %q: %s: %w", rings,
			findElsewhere(rings), ErrNoAgent)
	} else if err != nil {
		return nil, fmt.Errorf("find the agent: %w", err)
	}
	l := &Local{path: filepath.Join(rings, SocketName)}
	l.http.Transport = &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", l.path)
		}}
	return l, nil
}

// findElsewhere returns advice for a user who has no agent at the given directory of rings: how to
// start one, or where to find one.
func findElsewhere(rings string) string {
	const most = 3
	say := "start cp-agent, or name its directory of rings with --rings"
	for i, other := range OthersBeside(rings) {
		if i == most {
			break
		}
		say += fmt.Sprintf("; or ask another agent, if one runs there: %scprof … "+
			"--rings %s", AsOwner(other), other)
	}
	return say
}

// OthersBeside returns the usual directories of rings of other users. They are beside the directory
// dir. Up to the hyphen, their names are the same as the name of dir. After the hyphen comes a
// user's number.
func OthersBeside(dir string) (others []string) {
	dir = filepath.Clean(dir)
	base, _, found := strings.Cut(filepath.Base(dir), "-")
	if !found {
		return nil
	}
	beside, err := filepath.Glob(filepath.Join(filepath.Dir(dir), base+"-*"))
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(beside, func(other string) bool {
		_, number, _ := strings.Cut(filepath.Base(other), "-")
		_, numberErr := strconv.ParseUint(number, 10, 32)
		info, err := os.Lstat(other)
		return other == dir || numberErr != nil || err != nil || !info.IsDir()
	})
}

// AsOwner returns what to write before a command so that it runs as the owner of a directory, such
// as "sudo -u NAME ". It returns "" if the directory belongs to this user. Even root must become
// the owner, because no command reads rings of another user.
func AsOwner(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	s, known := info.Sys().(*syscall.Stat_t)
	if !known || int(s.Uid) == os.Geteuid() {
		return ""
	}
	return fmt.Sprintf("sudo -u %s ", plainfile.UserName(s.Uid))
}

// Status asks for the agent's status.
func (l *Local) Status(ctx context.Context) (s Status, err error) {
	err = l.ask(ctx, http.MethodGet, PathStatusJSON, nil, &s)
	return s, err
}

// Flush makes the agent write the present content of the rings to the logs.
func (l *Local) Flush(ctx context.Context) error {
	return l.ask(ctx, http.MethodPost, PathFlush, nil, &struct{}{})
}

// Snapshot makes the agent write the content of flight recorders to the logs. The pattern selects
// channels by name, and "" selects all.
func (l *Local) Snapshot(ctx context.Context, channels string) (s SnapshotAnswer, err error) {
	err = l.ask(ctx, http.MethodPost, PathSnapshot, url.Values{"channels": {channels}}, &s)
	return s, err
}

// StartCapture makes the agent capture the messages that programs exchange.
func (l *Local) StartCapture(ctx context.Context) (s CaptureStatus, err error) {
	err = l.ask(ctx, http.MethodPost, PathStart, nil, &s)
	return s, err
}

// StopCapture makes the agent end its capture.
func (l *Local) StopCapture(ctx context.Context) (s CaptureStatus, err error) {
	err = l.ask(ctx, http.MethodPost, PathStop, nil, &s)
	return s, err
}

// Find makes the agent look for a node with a fact that matches a pattern. The search may take
// minutes if nodes on the way are gone or give false answers.
func (l *Local) Find(ctx context.Context, pattern string) (f FindAnswer, err error) {
	err = l.ask(ctx, http.MethodPost, PathFind, url.Values{"fact": {pattern}}, &f)
	return f, err
}

// Hot makes the agent look for the nodes with the most heat of one kind.
func (l *Local) Hot(ctx context.Context, by string) (h HotAnswer, err error) {
	err = l.ask(ctx, http.MethodPost, PathHot, url.Values{"by": {by}}, &h)
	return h, err
}

// OpenRun opens a run. From then on, everything that programs log on this node belongs to the run.
func (l *Local) OpenRun(ctx context.Context, name string) (r RunAnswer, err error) {
	err = l.ask(ctx, http.MethodPost, PathOpenRun, url.Values{"name": {name}}, &r)
	return r, err
}

// CloseRun closes the run.
func (l *Local) CloseRun(ctx context.Context, name string) (r RunAnswer, err error) {
	err = l.ask(ctx, http.MethodPost, PathCloseRun, url.Values{"name": {name}}, &r)
	return r, err
}

func (l *Local) ask(ctx context.Context, method, path string, query url.Values, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://agent"+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	r.Header.Set(VersionHeader, strconv.Itoa(ordersVersion))
	answer, err := l.http.Do(r)
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("ask the agent at %q: %w: %s", l.path, ErrNoAgent,
			findElsewhere(filepath.Dir(l.path)))
	}
	if err != nil {
		return fmt.Errorf("ask the agent at %q: %w", l.path, err)
	}
	defer answer.Body.Close()
	if err := checkVersion(answer.Header); err != nil {
		return fmt.Errorf("ask the agent at %q: %w", l.path, err)
	}
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
		return fmt.Errorf("the agent says: %s", strings.TrimSpace(string(text)))
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		return fmt.Errorf("ask the agent at %q: read the answer: %w", l.path, err)
	}
	return nil
}
