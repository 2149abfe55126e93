// Command blackbox is a testbed for captured messages: small services in Go, Java, Python and C,
// with Redis, PostgreSQL and nginx, on three virtual nodes. None of them has a line of
// Cloudprofiler. They exchange messages over TCP, UDP and UNIX sockets, and write down each message
// and what caused it (FORMAT.md). The captured messages, their matches and their transfers are
// compared with this truth.
//
// A request goes from load through nginx to gateway, a pool of goroutines. For a request, gateway
// asks two services, one of them, or none: pool, a pool of threads in Java, and tasks, an event
// loop in Python. pool asks epoll, which has threads in C, and epoll asks Redis. tasks asks
// PostgreSQL.
//
// "make demo-blackbox" builds the testbed and runs it as root.
package main
