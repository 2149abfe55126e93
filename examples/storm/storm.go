package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/demo"
	"github.com/cloudprofiler/cloudprofiler/examples/engine"
)

// storm is a cluster of ZooKeeper, Nimbus, and a supervisor with one worker on each node.
type storm struct {
	engine.Demonstration
	Workers int
	KillOne bool

	home      string // home directory of ZooKeeper, Nimbus and the client
	last      string // home directory of the last node's supervisor
	temporary string
	zookeeper int // ZooKeeper's port
	nimbus    int // Nimbus's port
	workers   []int
	rings     string // directory of rings of the node from which the load comes
}

// startLimit is how long the cluster may take to start, and how long a topology may take to begin.
const startLimit = 2 * time.Minute

// Nodes returns one more than the number of workers. The workers are on the first nodes, and the
// load comes from the last.
func (s *storm) Nodes() int { return s.Workers + 1 }

// Sources returns the number of workers, because each has a spout.
func (s *storm) Sources() int { return s.Workers }

func (s *storm) Start(ctx context.Context, nodes []demo.EngineNode, temporary string) error {
	s.rings = nodes[s.Workers].Rings
	nodes = nodes[:s.Workers]
	ports, err := engine.FreePorts(2 + 2*len(nodes))
	if err != nil {
		return err
	}
	s.temporary, s.zookeeper, s.nimbus = temporary, ports[0], ports[1]
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	long := context.WithoutCancel(ctx)
	if s.home, err = s.makeHome("nimbus", 0, 0); err != nil {
		return err
	}
	j := s.jvm("zookeeper", s.home, "org.apache.storm.shade.org.apache.zookeeper.server."+
		"ZooKeeperServerMain", strconv.Itoa(s.zookeeper), filepath.Join(temporary, "zookeeper"))
	j.Options = append(j.Options, "-Dzookeeper.admin.enableServer=false")
	if err := s.daemon(ctx, long, j, s.zookeeper); err != nil {
		return err
	}
	j = s.jvm("nimbus", s.home, "org.apache.storm.daemon.nimbus.Nimbus")
	if err := s.daemon(ctx, long, j, s.nimbus); err != nil {
		return err
	}
	for i, n := range nodes {
		thrift, worker := ports[2+2*i], ports[3+2*i]
		home, err := s.makeHome("supervisor-"+n.Name, thrift, worker)
		if err != nil {
			return err
		}
		j := s.jvm("supervisor-"+n.Name, home, "org.apache.storm.daemon.supervisor.Supervisor")
		j.Env = append(j.Env, "CLOUDPROFILER_DIR="+n.Rings) // the worker inherits this variable
		if err := s.daemon(ctx, long, j, thrift); err != nil {
			return err
		}
		s.workers, s.last = append(s.workers, worker), home
	}
	return nil
}

// daemon starts a process, and waits until the process listens on its port.
func (s *storm) daemon(ctx, long context.Context, j engine.JVM, port int) error {
	if _, err := s.Cluster.Start(long, j); err != nil {
		return err
	}
	return s.Until(ctx, j.Name+" listens", func() (bool, error) {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return false, err
		}
		return true, conn.Close()
	})
}

func (s *storm) jvm(name, home, main string, args ...string) engine.JVM {
	return engine.JVM{
		Name: name, Main: main, Args: args, Dir: home,
		Env: []string{"STORM_CONF_DIR=" + filepath.Join(home, "conf")},
		Options: []string{
			"-Xmx256m", "-XX:+UseSerialGC", "-Dstorm.home=" + home,
			"-Dstorm.jar=" + s.Job,
			"-Dlog4j2.configurationFile=" + filepath.Join(home, "log4j2", "daemon.xml"),
		},
		Classes: []string{filepath.Join(home, "conf")},
	}
}

// makeHome makes a directory with the layout of Storm's archive. It contains the jars for workers,
// a configuration, and the configuration of logging.
func (s *storm) makeHome(name string, thrift, worker int) (home string, err error) {
	home = filepath.Join(s.temporary, name)
	jars := filepath.Join(home, "lib-worker")
	for _, dir := range []string{"lib-worker", "conf", "log4j2", "logs", "local"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			return "", fmt.Errorf("make Storm's directory: %w", err)
		}
	}
	for jar := range strings.SplitSeq(s.ClassPath, ":") {
		if err := os.Symlink(jar, filepath.Join(jars, filepath.Base(jar))); err != nil {
			return "", fmt.Errorf("make Storm's directory: %w", err)
		}
	}
	agent := ""
	if s.Agent != "" {
		agent = "-javaagent:" + s.Agent + " "
	}
	files := map[string]string{
		"conf/storm.yaml": strings.NewReplacer(
			"ZOOKEEPER", strconv.Itoa(s.zookeeper), "NIMBUS", strconv.Itoa(s.nimbus),
			"LOCAL", filepath.Join(home, "local"), "THRIFT", strconv.Itoa(max(thrift, 1)),
			"WORKER", strconv.Itoa(max(worker, 1)), "AGENT", agent,
			"LOG4J", filepath.Join(home, "log4j2")).Replace(configuration),
		"log4j2/daemon.xml":  logging,
		"log4j2/worker.xml":  logging,
		"log4j2/cluster.xml": logging,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("configure Storm: %w", err)
		}
	}
	return home, nil
}

const configuration = `storm.zookeeper.servers: ["127.0.0.1"]
storm.zookeeper.port: ZOOKEEPER
nimbus.seeds: ["127.0.0.1"]
nimbus.thrift.port: NIMBUS
storm.local.hostname: "127.0.0.1"
storm.local.dir: "LOCAL"
storm.log4j2.conf.dir: "LOG4J"
supervisor.thrift.port: THRIFT
supervisor.slots.ports: [WORKER]
storm.daemon.metrics.reporter.plugins: []
nimbus.monitor.freq.secs: 2
executor.metrics.frequency.secs: 2
worker.heap.memory.mb: 256
worker.childopts: "AGENT-Xmx%HEAP-MEM%m -XX:+UseSerialGC"
worker.gc.childopts: ""
topology.worker.max.heap.size.mb: 512.0
supervisor.memory.capacity.mb: 4096.0
`

const logging = `<?xml version="1.0" encoding="UTF-8"?>
<configuration>
  <appenders>
    <Console name="out"><PatternLayout pattern="%d{HH:mm:ss,SSS} %-5p %c{1} - %m%n"/></Console>
  </appenders>
  <loggers>
    <root level="info"><appender-ref ref="out"/></root>
  </loggers>
</configuration>
`

// client starts the topology's main class as a client process: with arguments the class submits the
// topology, and without arguments the class ends the topology.
func (s *storm) client(ctx context.Context, name string, args ...string) (*engine.Process, error) {
	j := s.jvm(name, s.home, "adstream.Topology", args...)
	j.Classes = append(j.Classes, s.Job)
	p, err := s.Cluster.Start(ctx, j)
	if err != nil {
		return nil, err
	}
	return p, p.Wait(ctx)
}

func (s *storm) Begin(ctx context.Context, l *engine.Load) error {
	_, err := s.client(ctx, "submit", strconv.Itoa(l.Port), strconv.Itoa(l.BackPort),
		strconv.Itoa(s.Workers))
	return err
}

// Run runs the topology until it has processed all events. If KillOne is set, it kills a worker
// halfway. The events that were in this worker's spout are then lost.
func (s *storm) Run(ctx context.Context) error {
	limit := 2*s.Lasts() + startLimit
	if s.KillOne {
		limit += startLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var processed engine.Counter
	l, err := engine.Listen(processed.Done)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := s.Begin(ctx, l); err != nil {
		return err
	}
	killed := make(chan error, 1)
	go func() { killed <- s.killWorker(ctx) }()
	if err := s.Offer(ctx, l, s.Sources(), s.rings); err != nil {
		return err
	}
	if err := <-killed; err != nil {
		return err
	}
	if err := s.wait(ctx, &processed); err != nil {
		return err
	}
	s.Sayf("Storm processed %d of %d events", processed.Load(), s.Events)
	select { // Storm's metrics arrive at Nimbus only every few seconds
	case <-ctx.Done():
	case <-time.After(metricsLag):
	}
	end, err := s.client(ctx, "end")
	if err != nil {
		return err
	}
	s.Claims(claimsOf(end.Said("said: "))...)
	return nil
}

// messageTimeout is the topology's setting topology.message.timeout.secs: if a tuple is not
// processed within this time, its spout sends it again.
const messageTimeout = 10 * time.Second

// The method wait waits until all events are processed. After a kill, some events may be lost. Then
// the method also returns if no event was processed for three times messageTimeout. Within that
// time, spouts send again each event that was not processed in time.
func (s *storm) wait(ctx context.Context, processed *engine.Counter) error {
	before, since := int64(-1), time.Now()
	for {
		now := processed.Load()
		if now != before {
			before, since = now, time.Now()
		}
		if now >= int64(s.Events) || s.KillOne && time.Since(since) > 3*messageTimeout {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until all events are processed: %d of %d are: %w", now,
				s.Events, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// killWorker kills the last node's worker halfway through the job, and waits until the supervisor
// has started another worker. If KillOne is not set, killWorker does nothing.
func (s *storm) killWorker(ctx context.Context) error {
	if !s.KillOne {
		return nil
	}
	// Each worker has a directory in the directory workers. In it, the directory pids has a file
	// with the process id as its name. Wait for a heartbeat: if a worker dies before its first
	// heartbeat, the supervisor waits two minutes for it.
	workers := filepath.Join(s.last, "local", "workers", "*")
	pids := filepath.Join(workers, "pids", "*")
	err := s.Until(ctx, "a worker runs", func() (bool, error) {
		beats, err := filepath.Glob(filepath.Join(workers, "heartbeats", "*"))
		return len(beats) > 0, err
	})
	if err != nil {
		return err
	}
	select {
	case <-time.After(s.Lasts() / 2):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	found, err := filepath.Glob(pids)
	if err != nil {
		return fmt.Errorf("kill a worker: %w", err)
	}
	if len(found) != 1 {
		return fmt.Errorf("kill a worker: its process is one of %q", found)
	}
	pid, err := strconv.Atoi(filepath.Base(found[0]))
	if err != nil {
		return fmt.Errorf("kill a worker: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill worker %d: %w", pid, err)
	}
	return s.Until(ctx, "another worker runs", func() (bool, error) {
		now, err := filepath.Glob(pids)
		return slices.ContainsFunc(now, func(f string) bool { return f != found[0] }), err
	})
}

// metricsLag is how long Storm's metrics may take until Nimbus has them: three of their periods.
const metricsLag = 6 * time.Second

// An event passes readPoint when a spout has read it, and donePoint when Storm has processed it.
const readPoint, donePoint = "job.events/read", "job.events/done"

// eventPath is an event's path through the topology.
var eventPath = [][2]string{
	{"generator/intended", "generator/send"},
	{"generator/send", readPoint},
	{"events/send", "deserialise/recv"},
	{"deserialise/send", "filter/recv"},
	{"filter/send", "project/recv"},
	{"project/send", "join/recv"},
	{"join/send", "count/recv"},
}

// claimsOf returns the latencies that Storm claims, from the lines that the topology's main class
// prints.
func claimsOf(lines []string) (claims []engine.Claim) {
	for _, line := range lines {
		var kind, component string
		var ms float64
		var events int
		_, err := fmt.Sscanf(line, "said: %s %s %g %d", &kind, &component, &ms, &events)
		if err != nil || events == 0 {
			continue
		}
		c := engine.Claim{
			Name: kind + " latency of " + component, Lo_ms: ms, Hi_ms: ms,
			From: component + "/recv", To: component + "/end",
		}
		if kind == "complete" {
			c.From, c.To = readPoint, donePoint
		}
		claims = append(claims, c)
	}
	return claims
}
