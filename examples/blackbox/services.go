package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/demo"
)

// services are the processes of the testbed. Their ports are fixed numbers, because each node has a
// network namespace of its own, in which all ports are free.
type services struct {
	self    string // this program, which contains the services in Go
	Java    string // the command that runs Java
	Epoll   string // the service in C
	Source  string // the directory of the services in Java and Python
	Truth   string // the directory in which the services write their truth
	Preload string // a library to load into the services; "": the kernel captures their messages
	Workers int    // threads, goroutines or connections of each service

	temporary string
	running   []*exec.Cmd
	Absent    []string // programs that are not installed; simpler programs replace them
}

const startLimit = time.Minute

// start starts all services, on three nodes, and returns the address for the load.
func (s *services) start(ctx context.Context, nodes []demo.EngineNode) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	a, b, c := nodes[0], nodes[1], nodes[2]
	var err error
	// The path of a UNIX socket must be short, and the user of PostgreSQL must be able to use the
	// directory.
	if s.temporary, err = os.MkdirTemp("", "blackbox"); err != nil {
		return "", err
	}
	if err := os.Chmod(s.temporary, 0o755); err != nil {
		return "", err
	}
	workers := strconv.Itoa(s.Workers)
	truth := func(name string) string { return filepath.Join(s.Truth, name+".tsv") }
	path := filepath.Join(s.temporary, "tasks")
	postgres, err := s.startPostgres(ctx, c)
	if err != nil {
		return "", err
	}
	redis := on(c, 6379)
	if program := find("redis-server"); program != "" {
		err = s.run(c, "redis", nil, program, "--port", "6379", "--save", "", "--bind",
			c.Address.String(), "--protected-mode", "no", "--dir", s.temporary)
	} else {
		s.Absent = append(s.Absent, "Redis")
		err = s.run(c, "redis", nil, s.self, "counter", redis)
	}
	tasks, epoll, pool, gateway := on(c, 8003), on(c, 8002), on(b, 8001), on(b, 8000)
	for _, start := range []func() error{
		func() error { return s.waitListening(ctx, c, "tcp", redis) },
		func() error {
			return s.run(c, "tasks", nil, "python3", filepath.Join(s.Source, "tasks.py"),
				c.Address.String(), "8003", path, postgres, workers, truth("tasks"))
		},
		func() error { return s.waitListening(ctx, c, "unix", path) },
		func() error {
			return s.run(c, "epoll", nil, s.Epoll, "8002", c.Address.String(), "6379", path,
				workers, truth("epoll"))
		},
		func() error { return s.waitListening(ctx, c, "tcp", epoll) },
		func() error {
			return s.run(b, "pool", nil, s.Java, "-Xmx64m", "-XX:+UseSerialGC",
				filepath.Join(s.Source, "Pool.java"), "8001", c.Address.String(), "8002",
				workers, truth("pool"))
		},
		func() error { return s.waitListening(ctx, b, "tcp", pool) },
		func() error {
			return s.run(b, "gateway", nil, s.self, "gateway", gateway, pool, tasks, workers,
				truth("gateway"))
		},
		func() error { return s.waitListening(ctx, b, "tcp", gateway) },
	} {
		if err = errors.Join(err, start()); err != nil {
			return "", err
		}
	}
	program := find("nginx")
	if program == "" {
		s.Absent = append(s.Absent, "nginx")
		return gateway, nil
	}
	front := on(a, 8080)
	text := strings.NewReplacer("DIR", s.temporary, "GATEWAY", gateway, "FRONT", front).
		Replace(nginxConfiguration)
	configuration := filepath.Join(s.temporary, "nginx.conf")
	if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
		return "", err
	}
	if err := s.run(a, "nginx", nil, program, "-c", configuration); err != nil {
		return "", err
	}
	return front, s.waitListening(ctx, a, "tcp", front)
}

func on(n demo.EngineNode, port int) string { return fmt.Sprintf("%s:%d", n.Address, port) }

func find(program string) string {
	for _, name := range []string{program, "/usr/sbin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

const nginxConfiguration = `daemon off; worker_processes 1; user root; pid DIR/nginx.pid;
error_log stderr; events {}
http {
	access_log off; keepalive_requests 1000000;
	client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
	upstream gateway { server GATEWAY; keepalive 16; keepalive_requests 1000000; }
	server {
		listen FRONT;
		location / {
			proxy_pass http://gateway; proxy_http_version 1.1; proxy_set_header Connection "";
		}
	}
}
`

// startPostgres starts PostgreSQL as another user, because it refuses to run as root. It returns
// the path of its socket, or "" if PostgreSQL is not installed.
func (s *services) startPostgres(ctx context.Context, n demo.EngineNode) (path string, err error) {
	account, userErr := user.Lookup("postgres")
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if userErr != nil || len(found) == 0 {
		s.Absent = append(s.Absent, "PostgreSQL")
		return "", nil
	}
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	as := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	dir := filepath.Join(s.temporary, "postgres")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, uid, gid)); err != nil {
		return "", err
	}
	make := exec.CommandContext(ctx, filepath.Join(filepath.Dir(found[0]), "initdb"), "--no-sync",
		"-A", "trust", "-U", "postgres", "-D", filepath.Join(dir, "data"))
	make.Dir, make.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := make.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := s.run(n, "postgres", as, found[0], "-D", filepath.Join(dir, "data"), "-k", dir,
		"-c", "listen_addresses=", "-c", "fsync=off"); err != nil {
		return "", err
	}
	path = filepath.Join(dir, ".s.PGSQL.5432")
	return path, s.waitListening(ctx, n, "unix", path)
}

// run starts a service on a node.
func (s *services) run(n demo.EngineNode, name string, as *syscall.Credential, program string,
	args ...string) error {
	output, err := os.Create(filepath.Join(s.Truth, name+".log"))
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.temporary, output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
	if s.Preload != "" && as == nil {
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+s.Preload, "CLOUDPROFILER_DIR="+n.Rings)
	}
	if err := n.Do(cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	s.running = append(s.running, cmd)
	return nil
}

// waitListening waits until a service listens at an address.
func (s *services) waitListening(ctx context.Context, n demo.EngineNode, network, at string) error {
	for {
		err := n.Do(func() error {
			c, err := net.Dial(network, at)
			if err != nil {
				return err
			}
			return c.Close()
		})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: see the logs in %q", at, err, s.Truth)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop asks all services to end, the last one first, and waits for them. As they end, they write
// down the rest of their messages.
func (s *services) stop() {
	for i := len(s.running) - 1; i >= 0; i-- {
		cmd := s.running[i]
		ask := syscall.SIGTERM
		if strings.HasSuffix(cmd.Path, "/postgres") {
			ask = syscall.SIGINT // PostgreSQL then does not wait for its clients
		}
		syscall.Kill(-cmd.Process.Pid, ask)
		force := time.AfterFunc(10*time.Second, func() {
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		})
		cmd.Wait()
		force.Stop()
	}
	s.running = nil
	if s.temporary != "" {
		os.RemoveAll(s.temporary)
	}
}
