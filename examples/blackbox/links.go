package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// A trueLink says that a program sent a message because it had received another one.
type trueLink struct {
	program        string
	request        string
	sent, received blackbox.Message
}

// writeLinks writes the true links, in the format of FORMAT.md. It returns the number of links of
// each program.
func (s *logSplitter) writeLinks(path string, all []*message) (count map[string]int, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	count = map[string]int{}
	for _, l := range append(s.ownLinks(all), s.otherLinks(all)...) {
		count[l.program]++
		socket := s.sockets[l.sent.Connection]
		node := s.nodes[slices.Index(s.namespaces, socket.Namespace)]
		counter := s.counters[socket.Namespace]
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\n", node, l.program, l.request,
			socket.Cookie, counter.Virtual(l.sent.Began_cycles),
			s.sockets[l.received.Connection].Cookie, counter.Virtual(l.received.Began_cycles))
	}
	return count, w.Flush()
}

// ownLinks returns the links of the services that write their messages down.
func (s *logSplitter) ownLinks(all []*message) (links []trueLink) {
	type line struct {
		service string
		n       int
	}
	lines := map[line]*message{}
	for _, m := range all {
		lines[line{m.service, m.n}] = m
	}
	for _, m := range all {
		for _, n := range m.causes {
			cause, ok := s.captured[lines[line{m.service, n}]]
			if sent, also := s.captured[m]; ok && also {
				links = append(links, trueLink{m.service, m.request, sent, cause})
			}
		}
	}
	return links
}

// otherLinks returns the links of nginx, Redis and PostgreSQL. These programs write nothing down,
// but their neighbours do. A neighbour's records show what such a program received for a request,
// and what it sent.
func (s *logSplitter) otherLinks(all []*message) (links []trueLink) {
	sockets, sends := map[string]bool{}, map[string]bool{}
	for _, m := range all {
		sockets[m.socket] = true
		sends[m.socket] = sends[m.socket] || m.sent
	}
	// other reports whether the program at the other end of a message's socket writes nothing down.
	// If the service tasks sends on a UNIX socket, the socket leads to such a program, namely
	// PostgreSQL. All other UNIX sockets connect epoll with tasks, and both write their messages
	// down.
	other := func(m *message) bool {
		if strings.HasPrefix(m.socket, "unix ") {
			return m.service == "tasks" && sends[m.socket]
		}
		return strings.HasPrefix(m.socket, "tcp ") && !sockets[otherEnd(m.socket)]
	}
	type end struct {
		service, request string
		sent             bool
	}
	last := map[end]*message{} // the last message to or from each program that writes nothing down
	for _, m := range all {
		if m.request != "" && other(m) {
			last[end{m.service, m.request, m.sent}] = m
		}
	}
	add := func(program, request, from, to string) {
		received, ok := s.other(last[end{from, request, true}])
		sent, also := s.other(last[end{to, request, false}])
		if ok && also {
			links = append(links, trueLink{program, request, sent, received})
		}
	}
	for e := range last {
		switch {
		case !e.sent:
		case e.service == "load":
			add("nginx", e.request, "load", "gateway")
			add("nginx", e.request, "gateway", "load")
		case e.service == "epoll":
			add("redis", e.request, "epoll", "epoll")
		case e.service == "tasks":
			add("postgres", e.request, "tasks", "tasks")
		}
	}
	return links
}

// other looks at the other end of m's socket. It returns the message there that contains the last
// byte of m.
func (s *logSplitter) other(m *message) (found blackbox.Message, ok bool) {
	own, ok := s.captured[m]
	if !ok {
		return found, false
	}
	if socket := s.sockets[own.Connection]; socket.Family == blackbox.UNIX {
		// On these sockets, requests and answers alternate, and each is one message at both ends.
		// So the messages of both ends have the same order.
		var theirs []blackbox.Message
		for _, c := range s.sockets { // one of the two ends may not know the other's cookie
			if c.Family == blackbox.UNIX && (c.Cookie == socket.Peer || c.Peer == socket.Cookie) {
				theirs = s.sides[side{socketOf(&c), !m.sent}]
			}
		}
		ours := s.sides[m.side()]
		at := slices.Index(ours, own)
		if at < 0 || len(ours) != len(theirs) {
			return found, false
		}
		return theirs[at], true
	}
	all := s.sides[side{otherEnd(m.socket), !m.sent}]
	last := own.Position + uint64(own.Bytes) - 1
	at := sort.Search(len(all), func(i int) bool {
		return all[i].Position+uint64(all[i].Bytes) > last
	})
	if at == len(all) || all[at].Position > last {
		return found, false
	}
	return all[at], true
}
