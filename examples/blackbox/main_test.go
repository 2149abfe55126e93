package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/examples/demo"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
)

func TestMain(m *testing.M) {
	switch append(os.Args, "")[1] {
	case "process", "gateway", "load", "counter": // a process of the testbed
		main()
		return
	}
	os.Exit(leak.Main(m))
}

// The services are in Go, Java, Python and C. Their messages are captured and matched as the
// services wrote them down, and the interval of each transfer time contains the true time.
func TestPrivilegedTestbed(t *testing.T) {
	privileged.Need(t)
	bed := runTestbed(t, "")
	lost := 0
	for _, n := range bed.stats.Lost {
		lost += int(n)
	}
	checkTestbed(t, bed, lost, 1000)
	// In a UNIX stream, bytes have no numbers. Matching must find out how many bytes waited in the
	// stream when the capture began. If few calls of a stream were captured, as on a crowded
	// machine, matching may be unable to find this number.
	open := int(bed.answer.Left[messages.Shared])
	for protocol, most := range map[string]int{"udp": 0, "unix": open} {
		m := bed.matched[protocol]
		if m == nil || m.True < 100 || most > m.True/20 || m.Wrong > 0 ||
			m.True-m.Right > 2*lost+most {
			t.Errorf("%+v over %s, %d left open", m, protocol, open)
		}
	}
	for _, program := range []string{"gateway", "pool", "epoll", "tasks"} {
		if bed.links[program] < 100 {
			t.Errorf("%d links of %s", bed.links[program], program)
		}
	}
}

// The preloaded library sees the same messages of a service as the capture in the kernel does. This
// holds for all services that are not in Go. It also holds for nginx, although nginx removes
// LD_PRELOAD from its environment.
func TestPrivilegedTestbedWithLibrary(t *testing.T) {
	privileged.Need(t)
	if os.Getenv("CLOUDPROFILER_PROOF") != "full" {
		t.Skip("internal/conformance tests the library briefly")
	}
	dir := t.TempDir()
	library := filepath.Join(dir, "libcloudprofiler-capture.so")
	if out, err := exec.Command("make", "-C", "../../sdk/c", "BUILD="+dir,
		library).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	bed := runTestbed(t, library)
	checkTestbed(t, bed, 0, 400)
	answered := 0 // requests that nginx received, and answers that it sent
	for _, m := range bed.split.allMessages {
		if c := bed.split.sockets[m.Connection]; c.Local.String() == bed.address {
			answered++
		}
	}
	if answered != 2*bed.Requests && !slices.Contains(bed.Absent, "nginx") {
		t.Errorf("nginx exchanged %d messages with the load, want %d", answered, 2*bed.Requests)
	}
}

// While PostgreSQL starts, it accepts connections, and closes them again. The service tasks then
// connects again.
func TestPrivilegedTasksConnectsAgain(t *testing.T) {
	privileged.Need(t)
	dir := t.TempDir()
	postgres, tasks := filepath.Join(dir, "postgres"), filepath.Join(dir, "tasks")
	l, err := net.Listen("unix", postgres)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.CommandContext(t.Context(), "python3", "services/tasks.py", "127.0.0.1", "0", tasks,
		postgres, "1", filepath.Join(dir, "truth"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for _, answer := range []string{"", "Z\x00\x00\x00\x05I"} { // the second is ready for queries
		l.(*net.UnixListener).SetDeadline(time.Now().Add(time.Minute))
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if answer == "" {
			c.Close()
			continue
		}
		defer c.Close()
		io.WriteString(c, answer)
	}
	for limit := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("unix", tasks)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
	}
}

func checkTestbed(t *testing.T, bed *testbed, lost, least int) {
	t.Helper()
	var out bytes.Buffer
	if err := bed.print(&out); err != nil {
		t.Error(err)
	}
	t.Log(out.String())
	for protocol, c := range bed.captured {
		if c.True < 100 || c.True-c.Captured > lost {
			t.Errorf("%s: %d messages, %d captured, %d lost", protocol, c.True, c.Captured, lost)
		}
	}
	if m := bed.matched["tcp"]; m == nil || m.True < least || m.True-m.Right > 2*lost {
		t.Errorf("%+v over TCP", m)
	}
}

// runTestbed runs the testbed. If library names a file, the services load it with LD_PRELOAD.
func runTestbed(t *testing.T, library string) *testbed {
	t.Helper()
	dir := t.TempDir()
	epoll, kept := filepath.Join(dir, "epoll"), filepath.Join(dir, "kept")
	for _, need := range []string{"gcc", "java", "python3"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Fatalf("the testbed's services need %q: install it", need)
		}
	}
	if out, err := exec.Command("gcc", "-O2", "-pthread", "-o", epoll,
		"services/epoll.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bed := &testbed{services: services{
		self: self, Java: "java", Epoll: epoll, Truth: filepath.Join(dir, "truth"), Workers: 4,
		Preload: library,
	}, Connections: 8, Requests: 400, PerSecond: 400}
	if bed.Source, err = filepath.Abs("services"); err != nil {
		t.Fatal(err)
	}
	if _, err = demo.RunEngine(context.Background(), demo.Options{
		Command: []string{self, "process"}, Scratch: dir, Brief: true, Keep: kept,
	}, bed, time.Second); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(kept, "report.html"))
	if err != nil || !bytes.Contains(page, []byte(`"epoll:8002"`)) {
		t.Errorf("the page does not show the service epoll: %v", err)
	}
	return bed
}
