package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// redis measures what a capture costs Redis.
func (b *captureBench) redis(ctx context.Context, row *CaptureRow, rings string) error {
	perSecond := 0
	if row.Name == "redis-10000" {
		perSecond = 10_000
	}
	return b.server(ctx, row, rings, talkOrder{
		Request: "SET key value\r\n", Connections: 50, PerSecond: perSecond,
	}, "redis-server", func(port string) []string {
		return []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", b.dir}
	})
}

// nginx measures what a capture costs nginx, which sends a small page.
func (b *captureBench) nginx(ctx context.Context, row *CaptureRow, rings string) error {
	return b.server(ctx, row, rings, talkOrder{
		Request: "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", Connections: 50,
	}, "nginx", func(port string) []string {
		text := strings.NewReplacer("DIR", b.dir, "PORT", port).Replace(nginxConfiguration)
		path := filepath.Join(b.dir, "nginx.conf")
		os.WriteFile(path, []byte(text), 0o600)
		return []string{"-c", path}
	})
}

const nginxConfiguration = `daemon off; master_process off; pid DIR/nginx.pid; error_log stderr;
events {}
http {
	access_log off; keepalive_requests 100000000;
	client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
	server { listen 127.0.0.1:PORT; location / { return 200 "a small page\n"; } }
}
`

// server measures the throughput of a server and its processor time.
func (b *captureBench) server(ctx context.Context, row *CaptureRow, rings string, ask talkOrder,
	program string, args func(port string) []string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + program); err != nil {
			row.Absent = program + " is not installed"
			return nil
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ask.Do, ask.Address, ask.For = "ask", l.Addr().String(), b.o.Turn
	_, port, _ := net.SplitHostPort(ask.Address)
	l.Close()
	server := exec.CommandContext(ctx, path, args(port)...)
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		server.Process.Kill()
		server.Wait()
	}()
	if err := listens(ctx, ask.Address); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	if _, err := b.talk.ask(ask); err != nil { // this only warms the server up
		return err
	}
	return b.pairs(ctx, row, rings, b.o.Pairs, func() (turnResult, error) {
		before, err := threadsTime(server.Process.Pid)
		if err != nil {
			return turnResult{}, err
		}
		r, err := b.talk.ask(ask)
		if err != nil {
			return turnResult{}, err
		}
		after, err := threadsTime(server.Process.Pid)
		took := r.Took.Seconds()
		return turnResult{float64(r.Calls) / took, (after - before).Seconds() / took}, err
	}, func(off, on float64) float64 { return 1 - on/off })
}

func listens(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
