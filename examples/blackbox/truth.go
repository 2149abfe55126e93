package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// readClock returns CLOCK_MONOTONIC in ns, the clock with which all services stamp their messages.
func readClock() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

// A witness writes down each message that a service sends or receives: see FORMAT.md.
type witness struct {
	mu   sync.Mutex
	file *os.File
	w    *bufio.Writer
	n    int
}

func newWitness(path string) (*witness, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &witness{file: f, w: bufio.NewWriter(f)}, nil
}

// noteMessage writes one line and returns its number.
func (t *witness) noteMessage(kind byte, socket, request string, bytes int, before int64,
	causes ...int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(causes), " ", ","), "[]")
	fmt.Fprintf(t.w, "%d\t%c\t%s\t%s\t%d\t%d\t%d\t%s\n", t.n, kind, socket, request, bytes, before,
		readClock(), list)
	return t.n
}

func (t *witness) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.w.Flush()
	t.file.Close()
}

// A conn is a connection whose messages are all written down. The messages are small, so each call
// of Read or Write is one system call that sends or receives.
type conn struct {
	net.Conn
	witness *witness
	name    string
	heard   atomic.Int64 // number of the last message that was received

	// The service sets these before it sends a message: the request to which the message belongs,
	// and the messages that caused it.
	request string
	causes  []int

	asked string // the request whose answer comes next; "": not known
}

func (t *witness) watch(c net.Conn) *conn {
	watched := &conn{Conn: c, witness: t}
	watched.name = fmt.Sprintf("%s %s %s", c.LocalAddr().Network(), c.LocalAddr(), c.RemoteAddr())
	return watched
}

// requestLine finds the number of an HTTP request. net/http sometimes reads the first byte alone,
// so the G may be missing.
var requestLine = regexp.MustCompile(`^G?ET /([0-9]+) `)

func (c *conn) Read(b []byte) (int, error) {
	before := readClock()
	n, err := c.Conn.Read(b)
	if n > 0 {
		request := c.asked
		if line := requestLine.FindSubmatch(b[:n]); line != nil {
			request = string(line[1])
		}
		c.heard.Store(int64(c.witness.noteMessage('R', c.name, request, n, before)))
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	before := readClock()
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.witness.noteMessage('S', c.name, c.request, n, before, c.causes...)
	}
	return n, err
}

// A listener writes down the messages of all connections that it accepts.
type listener struct {
	net.Listener
	witness *witness
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.witness.watch(c), nil
}
