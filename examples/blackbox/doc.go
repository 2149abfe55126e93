// Command blackbox is a testbed for captured messages: small services in Go, Java, Python and C,
// with Redis, PostgreSQL and nginx, on three virtual nodes. None of these programs uses
// Cloudprofiler. They exchange messages over TCP, UDP and UNIX sockets, and write down each message
// and what caused it (FORMAT.md). The captured messages, their matches and their transfers are
// compared with this truth.
//
// The service load sends each request through nginx to the service gateway, a pool of goroutines.
// Two services are behind gateway: pool, a pool of threads in Java, and tasks, an event loop in
// Python. For a request, gateway asks both of them, one of them, or none. pool asks epoll, which
// has threads in C, and epoll asks Redis. tasks asks PostgreSQL.
//
// "make demo-blackbox" builds the testbed and runs it as root.
package main
