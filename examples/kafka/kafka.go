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
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/demo"
	"github.com/cloudprofiler/cloudprofiler/examples/engine"
)

// kafka contains a broker (which is its own controller, so no other process is needed) and the
// programs that use the broker.
type kafka struct {
	engine.Demonstration
	Instances int
	Kill      string

	temporary string
	address   string // address of the broker
	broker    *engine.Process
	started   int // number of brokers and instances started, for the names of their logs
	nodes     []demo.EngineNode
}

// startLimit is how long the broker may take to start, and how long the programs may take to begin
// and to end.
const startLimit = 2 * time.Minute

const partitions = 4

// Nodes returns one more than the number of instances: the load, the producer and the consumer are
// on the first node, and each instance has its own.
func (k *kafka) Nodes() int { return 1 + k.Instances }

func (k *kafka) Start(ctx context.Context, nodes []demo.EngineNode, temporary string) error {
	ports, err := engine.FreePorts(2)
	if err != nil {
		return err
	}
	k.nodes, k.temporary = nodes, temporary
	k.address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	text := strings.NewReplacer("BROKER", strconv.Itoa(ports[0]),
		"CONTROLLER_PORT", strconv.Itoa(ports[1]),
		"LOGS", filepath.Join(temporary, "topics")).Replace(configuration)
	if err := os.WriteFile(k.properties(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("configure the broker: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	const cluster = "Y2xvdWRwcm9maWxlci1kZQ" // id of the cluster: 16 bytes in base64
	format := k.jvm("format", 256, "kafka.tools.StorageTool",
		"format", "-t", cluster, "-c", k.properties())
	if err := k.runToEnd(ctx, format); err != nil {
		return err
	}
	if err := k.startBroker(ctx); err != nil {
		return err
	}
	return k.runToEnd(ctx, k.jvm("topics", 256, "adstream.Topics",
		k.address, strconv.Itoa(partitions)))
}

func (k *kafka) properties() string { return filepath.Join(k.temporary, "server.properties") }

const configuration = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:CONTROLLER_PORT
listeners=PLAINTEXT://127.0.0.1:BROKER,CONTROLLER://127.0.0.1:CONTROLLER_PORT
advertised.listeners=PLAINTEXT://127.0.0.1:BROKER
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=LOGS
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
`

// jvm describes a process without the Java agent.
func (k *kafka) jvm(name string, heap_MiB int, main string, args ...string) engine.JVM {
	return engine.JVM{
		Name: name, Main: main, Args: args, Dir: k.temporary, Classes: []string{k.Job},
		Options: []string{
			fmt.Sprintf("-Xmx%dm", heap_MiB), "-XX:+UseSerialGC",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		},
	}
}

// logInto makes a process log into the rings of a node: it adds the Java agent to the process.
func (k *kafka) logInto(node demo.EngineNode, j engine.JVM) engine.JVM {
	j.Env = append(j.Env, "CLOUDPROFILER_DIR="+node.Rings)
	if k.Agent != "" {
		j.Options = append(j.Options, "-javaagent:"+k.Agent)
	}
	return j
}

// runToEnd runs a process to its end.
func (k *kafka) runToEnd(ctx context.Context, j engine.JVM) error {
	p, err := k.Cluster.Start(ctx, j)
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

func (k *kafka) startBroker(ctx context.Context) (err error) {
	k.started++
	k.broker, err = k.Cluster.Start(context.WithoutCancel(ctx),
		k.jvm(fmt.Sprintf("broker-%d", k.started), 512, "kafka.Kafka", k.properties()))
	if err != nil {
		return err
	}
	return k.waitUntil(ctx, "the broker listens", func() (bool, error) {
		conn, err := net.Dial("tcp", k.address)
		if err != nil {
			return false, err
		}
		return true, conn.Close()
	})
}

// waitUntil does what Cluster.Until does, but a process that ends is not an error.
func (k *kafka) waitUntil(ctx context.Context, what string, yes func() (bool, error)) error {
	for {
		ok, err := yes()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w; the last error: %v",
				what, context.Cause(ctx), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (k *kafka) startInstance(ctx context.Context, node demo.EngineNode) (*engine.Process, error) {
	k.started++
	name := fmt.Sprintf("instance-%s-%d", node.Name, k.started)
	return k.Cluster.Start(context.WithoutCancel(ctx), k.logInto(node, k.jvm(
		name, 256, "adstream.Application", k.address, filepath.Join(k.temporary, name))))
}

// Run starts the programs. It waits until the consumer has read everything that the application
// makes of the events. If KillOne is set, it kills an instance halfway through the job and starts a
// new one in its place.
func (k *kafka) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*k.Lasts()+startLimit)
	defer cancel()
	var instances []*engine.Process
	for _, node := range k.nodes[1:] {
		p, err := k.startInstance(ctx, node)
		if err != nil {
			return err
		}
		instances = append(instances, p)
	}
	err := k.waitUntil(ctx, "the application runs", func() (bool, error) {
		running := func(p *engine.Process) bool { return len(p.Said("state: RUNNING")) > 0 }
		return !slices.ContainsFunc(instances, func(p *engine.Process) bool {
			return !running(p)
		}), nil
	})
	if err != nil {
		return err
	}
	views := (k.Events + 2) / 3
	store, err := k.Cluster.Start(ctx, k.logInto(k.nodes[0],
		k.jvm("store", 256, "adstream.Store", k.address, strconv.Itoa(views))))
	if err != nil {
		return err
	}
	l, err := engine.Listen(nil)
	if err != nil {
		return err
	}
	defer l.Close()
	events, err := k.Cluster.Start(ctx, k.logInto(k.nodes[0],
		k.jvm("events", 256, "adstream.Events",
			k.address, strconv.Itoa(l.Port))))
	if err != nil {
		return err
	}
	killed := make(chan error, 1)
	go func() { killed <- k.killOne(ctx, instances) }()
	if err := k.Offer(ctx, l, 1, k.nodes[0].Rings); err != nil {
		return err
	}
	if err := <-killed; err != nil {
		return err
	}
	if err := events.Wait(ctx); err != nil {
		return err
	}
	return store.Wait(ctx)
}

func (k *kafka) killOne(ctx context.Context, instances []*engine.Process) (err error) {
	if k.Kill == "" {
		return nil
	}
	select {
	case <-time.After(k.Lasts() / 2):
	case <-ctx.Done():
	}
	if k.Kill == "broker" {
		k.broker.Kill()
		return k.startBroker(ctx)
	}
	instances[len(instances)-1].Kill()
	_, err = k.startInstance(ctx, k.nodes[len(k.nodes)-1])
	return err
}
