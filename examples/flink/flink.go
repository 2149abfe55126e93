package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/demo"
	"github.com/cloudprofiler/cloudprofiler/examples/engine"
)

// flink is a cluster of a JobManager and one TaskManager on each node.
type flink struct {
	engine.Demonstration
	Class        string
	TaskManagers int
	KillOne      bool

	conf     string // directory of the configuration
	rest     string // address of the JobManager
	managers []*engine.Process
	nodes    []demo.EngineNode
}

// opens lists packages of the JDK to which Flink needs access by reflection (the JVM's option
// --add-opens). Flink's own scripts list the same packages.
var opens = []string{
	"java.lang", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.lang.reflect", "java.text",
	"java.time", "java.util", "java.util.concurrent", "java.util.concurrent.atomic",
	"java.util.concurrent.locks",
}

// startLimit is how long the cluster may take to start.
const startLimit = 2 * time.Minute

// Nodes returns one more than the number of TaskManagers. The TaskManagers are on the first nodes,
// and the load comes from the last.
func (f *flink) Nodes() int { return f.TaskManagers + 1 }

func (f *flink) Sources() int { return 1 }

func (f *flink) Start(ctx context.Context, nodes []demo.EngineNode, temporary string) error {
	ports, err := engine.FreePorts(2)
	if err != nil {
		return err
	}
	f.nodes = nodes
	f.conf = filepath.Join(temporary, "conf")
	if err := f.configure(ports[0], ports[1]); err != nil {
		return err
	}
	f.rest = fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	long := context.WithoutCancel(ctx)
	_, err = f.Cluster.Start(long, f.jvm("jobmanager", 256,
		"org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"))
	if err != nil {
		return err
	}
	for i := range f.TaskManagers {
		if err := f.startManager(long, i); err != nil {
			return err
		}
	}
	return f.Until(ctx, "the TaskManagers are registered", func() (bool, error) {
		n, err := f.registered(ctx)
		return n == f.TaskManagers, err
	})
}

func (f *flink) startManager(ctx context.Context, i int) error {
	name := fmt.Sprintf("taskmanager-%s-%d", f.nodes[i].Name, len(f.managers))
	j := f.jvm(name, 512, "org.apache.flink.runtime.taskexecutor.TaskManagerRunner")
	j.Args = append(j.Args, "-D", "taskmanager.resource-id="+name)
	j.Env = append(j.Env, "CLOUDPROFILER_DIR="+f.nodes[i].Rings)
	if f.Agent != "" {
		j.Options = append(j.Options, "-javaagent:"+f.Agent)
	}
	p, err := f.Cluster.Start(ctx, j)
	f.managers = append(f.managers, p)
	return err
}

func (f *flink) jvm(name string, heap_MiB int, main string) engine.JVM {
	j := engine.JVM{
		Name: name, Main: main, Args: []string{"--configDir", f.conf},
		Env: []string{"FLINK_CONF_DIR=" + f.conf},
		Options: []string{
			fmt.Sprintf("-Xmx%dm", heap_MiB), "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=256m",
			"-Dlog4j2.configurationFile=" + filepath.Join(f.conf, "log4j.properties"),
		},
	}
	for _, p := range opens {
		j.Options = append(j.Options, "--add-opens=java.base/"+p+"=ALL-UNNAMED")
	}
	return j
}

// configure writes Flink's configuration. The sizes of all parts of the memory are given, because
// Flink otherwise derives them from the machine's memory.
func (f *flink) configure(rpc, rest int) error {
	files := map[string]string{
		"log4j.properties": "rootLogger.level=INFO\nrootLogger.appenderRef.c.ref=C\n" +
			"appender.c.name=C\nappender.c.type=CONSOLE\nappender.c.layout.type=PatternLayout\n" +
			"appender.c.layout.pattern=%d{HH:mm:ss,SSS} %-5p %c{1} - %m%n\n",
		"config.yaml": strings.NewReplacer(
			"RPC", strconv.Itoa(rpc), "REST", strconv.Itoa(rest)).Replace(configuration),
	}
	if err := os.MkdirAll(f.conf, 0o700); err != nil {
		return fmt.Errorf("configure Flink: %w", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(f.conf, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("configure Flink: %w", err)
		}
	}
	return nil
}

const configuration = `jobmanager.rpc.address: 127.0.0.1
jobmanager.rpc.port: RPC
jobmanager.bind-host: 127.0.0.1
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
rest.port: REST
taskmanager.host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
taskmanager.numberOfTaskSlots: 1
jobmanager.memory.process.size: 700m
taskmanager.cpu.cores: 1
taskmanager.memory.framework.heap.size: 64m
taskmanager.memory.framework.off-heap.size: 64m
taskmanager.memory.task.heap.size: 256m
taskmanager.memory.task.off-heap.size: 0
taskmanager.memory.managed.size: 64m
taskmanager.memory.network.min: 64m
taskmanager.memory.network.max: 64m
taskmanager.memory.jvm-metaspace.size: 128m
taskmanager.memory.jvm-overhead.min: 64m
taskmanager.memory.jvm-overhead.max: 64m
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 10
restart-strategy.fixed-delay.delay: 1 s
heartbeat.timeout: 6000
heartbeat.interval: 2000
metrics.latency.interval: 50
metrics.fetcher.update-interval: 500
`

func (f *flink) registered(ctx context.Context) (int, error) {
	var overview struct {
		TaskManagers int `json:"taskmanagers"`
	}
	err := f.ask(ctx, "/overview", &overview)
	return overview.TaskManagers, err
}

// ask asks the JobManager through its REST interface.
func (f *flink) ask(ctx context.Context, path string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.rest+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask Flink for %q: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// submit starts a job. It returns the client process, which ends when the job ends.
func (f *flink) submit(ctx context.Context, port, backPort int) (*engine.Process, error) {
	j := f.jvm("client", 256, "org.apache.flink.client.cli.CliFrontend")
	j.Args = []string{
		"run", "-c", f.Class, f.Job,
		strconv.Itoa(port), strconv.Itoa(backPort), strconv.Itoa(f.TaskManagers),
	}
	return f.Cluster.Start(ctx, j)
}

func (f *flink) Begin(ctx context.Context, l *engine.Load) error {
	_, err := f.submit(ctx, l.Port, l.BackPort)
	return err
}

// Run runs the job to its end. If KillOne is set, it kills a TaskManager halfway through the job
// and starts a new one on the same node.
func (f *flink) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*f.Lasts()+startLimit)
	defer cancel()
	l, err := engine.Listen(nil)
	if err != nil {
		return err
	}
	defer l.Close()
	client, err := f.submit(ctx, l.Port, 0)
	if err != nil {
		return err
	}
	if err := l.Connected(ctx, 1); err != nil {
		return fmt.Errorf("%w; the client said last:\n%s", err, client.Tail(20))
	}
	listening, ended := context.WithCancel(ctx)
	defer ended()
	markers := make(chan []engine.Claim, 1)
	go func() { markers <- f.latencyMarkers(listening) }()
	killed := make(chan error, 1)
	go func() { killed <- f.kill(ctx) }()
	if err := f.Offer(ctx, l, 1, f.nodes[f.TaskManagers].Rings); err != nil {
		return err
	}
	if err := <-killed; err != nil {
		return err
	}
	err = client.Wait(ctx)
	ended()
	f.Claims(<-markers...)
	return err
}

func (f *flink) kill(ctx context.Context) error {
	if !f.KillOne {
		return nil
	}
	select {
	case <-time.After(f.Lasts() / 2):
	case <-ctx.Done():
		return nil
	}
	last := f.TaskManagers - 1
	f.managers[last].Kill()
	return f.startManager(context.WithoutCancel(ctx), last)
}
