package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// gateway answers HTTP requests. Each handler sends its request over a channel to a pool of
// goroutines. Such a goroutine asks the services "pool" and "tasks", in an order that depends on
// the request's number. Then it sends "tasks" a notice over UDP, and returns the result over
// another channel.
type gateway struct {
	witness *witness
	jobs    chan job
	idle    chan *conn // connections to pool; each carries one request at a time
	tasks   *sharedConnection
	told    *conn // sends the datagrams
	telling sync.Mutex
}

type job struct {
	id     string
	heard  int
	causes chan []int // numbers of the messages for which the answer waited
}

type connKey struct{}

// runGateway serves until ctx ends.
func runGateway(ctx context.Context, listen, pool, tasks string, workers int, path string) error {
	w, err := newWitness(path)
	if err != nil {
		return err
	}
	defer w.close()
	g := &gateway{witness: w, jobs: make(chan job), idle: make(chan *conn, workers)}
	dial := func(network, to string) *conn {
		c, dialErr := net.Dial(network, to)
		if dialErr != nil {
			err = dialErr
			return nil
		}
		return w.watch(c)
	}
	for range workers/2 + 1 {
		g.idle <- dial("tcp", pool)
	}
	g.tasks, g.told = &sharedConnection{waits: map[string]chan int{}, conn: dial("tcp", tasks)},
		dial("udp", tasks)
	if err != nil {
		return err
	}
	go g.tasks.readAnswers()
	for range workers {
		go g.work()
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: g, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener{l, w}); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from := r.Context().Value(connKey{}).(*conn)
	j := job{strings.TrimPrefix(r.URL.Path, "/"), int(from.heard.Load()), make(chan []int)}
	g.jobs <- j
	from.causes = <-j.causes
	from.request = j.id
	fmt.Fprintln(w, j.id)
}

// work runs jobs. It answers every fourth job without asking another service, as if from a cache.
func (g *gateway) work() {
	for j := range g.jobs {
		id, _ := strconv.Atoi(j.id)
		causes := []int{j.heard}
		switch id % 4 {
		case 1: // one after the other
			causes = []int{g.tasks.ask(j.id, g.ask(j.id, j.heard))}
		case 2: // both at the same time
			second := make(chan int)
			go func() { second <- g.tasks.ask(j.id, j.heard) }()
			causes = []int{g.ask(j.id, j.heard), <-second}
		case 3:
			causes = []int{g.tasks.ask(j.id, j.heard)}
		}
		g.telling.Lock()
		g.told.request = j.id
		g.told.causes = causes
		fmt.Fprint(g.told, j.id)
		g.telling.Unlock()
		j.causes <- causes
	}
}

// ask sends a request to the service "pool", and waits for the answer. Until the answer comes, no
// other request uses the connection. ask returns the number of the answer's last message.
func (g *gateway) ask(id string, cause int) int {
	c := <-g.idle
	defer func() { g.idle <- c }()
	c.request, c.asked, c.causes = id, id, []int{cause}
	fmt.Fprintln(c, id)
	for b := make([]byte, 64); ; {
		n, err := c.Read(b)
		if err != nil {
			return 0
		}
		if b[n-1] == '\n' {
			return int(c.heard.Load())
		}
	}
}

// sharedConnection is a connection that several requests use at the same time.
type sharedConnection struct {
	*conn
	mu    sync.Mutex
	waits map[string]chan int
}

func (s *sharedConnection) ask(id string, cause int) int {
	answered := make(chan int, 1)
	s.mu.Lock()
	s.waits[id] = answered
	s.request, s.causes = id, []int{cause}
	fmt.Fprintln(s, id)
	s.mu.Unlock()
	return <-answered
}

// readAnswers reads all answers of the connection, and passes each to the goroutine whose request
// it answers.
func (s *sharedConnection) readAnswers() {
	var held []byte
	for b := make([]byte, 4096); ; {
		n, err := s.Read(b)
		if err != nil {
			return
		}
		held = append(held, b[:n]...)
		for {
			line, rest, ok := bytes.Cut(held, []byte("\n"))
			if !ok {
				break
			}
			held = rest
			s.mu.Lock()
			s.waits[string(line)] <- int(s.heard.Load())
			delete(s.waits, string(line))
			s.mu.Unlock()
		}
	}
}
