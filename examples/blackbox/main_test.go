package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

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

// What services in Go, Java, Python and C send and receive is captured and matched as they wrote it
// down, and every transfer contains the truth.
func TestPrivilegedTestbed(t *testing.T) {
	privileged.Need(t)
	dir := t.TempDir()
	epoll := filepath.Join(dir, "epoll")
	for _, need := range []string{"gcc", "java", "python3"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skip("needs ", need)
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
	}, Connections: 8, Requests: 400, PerSecond: 400}
	if bed.Source, err = filepath.Abs("services"); err != nil {
		t.Fatal(err)
	}
	_, err = demo.RunEngine(context.Background(), demo.Options{
		Command: []string{self, "process"}, Scratch: dir, Brief: true,
	}, bed, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := bed.print(&out); err != nil {
		t.Error(err)
	}
	t.Log(out.String())
	lost := 0
	for _, n := range bed.stats.Lost {
		lost += int(n)
	}
	for protocol, c := range bed.captured {
		if c.True < 100 || c.True-c.Captured > lost {
			t.Errorf("%s: %d messages, %d captured, %d lost", protocol, c.True, c.Captured, lost)
		}
	}
	if m := bed.matched["tcp"]; m == nil || m.True < 1000 || m.True-m.Right > 2*lost {
		t.Errorf("%+v over TCP", m)
	}
	for _, program := range []string{"gateway", "pool", "epoll", "tasks"} {
		if bed.links[program] < 100 {
			t.Errorf("%d links of %s", bed.links[program], program)
		}
	}
}
