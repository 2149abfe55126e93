package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/netns"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// recordedProgram is the program that a test records. It obeys an order (what). A number N means
// that it logs N tuples at two points. "N fail" means that it then also fails. Other orders are
// "nothing", "wait", "talk ADDRESS" and "attach PROCESS HOSTS".
func recordedProgram(what string) (code int) {
	if address, is := strings.CutPrefix(what, "talk "); is {
		return talk(address)
	}
	if words, is := strings.CutPrefix(what, "attach "); is {
		process, hosts, _ := strings.Cut(words, " ")
		return attachWithHosts(process, hosts)
	}
	switch what {
	case "wait":
		select {}
	case "nothing":
		return 0
	}
	fails := strings.TrimSuffix(what, " fail")
	tuples, err := strconv.ParseUint(fails, 10, 64)
	if err != nil {
		return 9
	}
	begun := time.Now()
	start, err := handlers.Open("job/start", handlers.Options{})
	if err != nil {
		return 8
	}
	end, err := handlers.Open("job/end", handlers.Options{})
	if err != nil {
		return 8
	}
	for id := range tuples {
		start.Log(id)
		end.Log(id)
	}
	start.Close()
	end.Close()
	fmt.Printf("took %d ns, dropped %d\nrings in %s\n", time.Since(begun),
		start.Dropped()+end.Dropped(), filepath.Dir(start.Path()))
	if fails != what {
		return 5
	}
	return 0
}

// talk exchanges messages with itself, at an address of this machine, until it is killed.
func talk(address string) int {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return 7
	}
	go func() {
		for c, err := listener.Accept(); err == nil; c, err = listener.Accept() {
			go io.Copy(c, c)
		}
	}()
	for ; ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			return 6
		}
		for range 4 {
			c.Write([]byte("hello"))
			io.ReadFull(c, make([]byte, 5))
		}
		c.Close()
	}
}

// recordProgram runs cprof record around a program of this test, with its own directory of runs.
func recordProgram(t *testing.T, what string) (code int, stdout, stderr, dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("CLOUDPROFILER_RUNS", dir)
	t.Setenv(programVariable, what)
	argv, err := reexec.Argv()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code = Run(t.Context(), append([]string{"record", "--no-capture", "--run", "r", "--"}, argv...),
		&out, &errs)
	return code, out.String(), errs.String(), dir
}

// A program that logs is recorded without any configuration, and all its events are there. Nothing
// remains except the run.
func TestRecord(t *testing.T) {
	code, stdout, stderr, dir := recordProgram(t, "20000")
	if code != 0 || !strings.Contains(stdout, "run r: 1 node, 2 channels, 20000 tuples") ||
		!strings.Contains(stdout, "job/start → job/end") ||
		!strings.Contains(stdout, "dropped 0\n") ||
		!strings.Contains(stdout, "cprof report "+filepath.Join(dir, "r")) {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	run, err := runs.Open(filepath.Join(dir, "r"))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if lacks := run.Lacks(); len(lacks) > 0 || len(run.Run.Nodes) != 1 ||
		run.Run.Nodes[0].FrequencyLo_hz >= run.Run.Nodes[0].FrequencyHi_hz {
		t.Errorf("%+v lacks %v", run.Run, lacks)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%d entries beside the run, %v", len(left)-1, err)
	}
	// Other tests on this machine may record at the same time, so look only at this run's rings.
	rings := regexp.MustCompile(`rings in (/.+)\n`).FindStringSubmatch(stdout)
	if rings == nil {
		t.Fatalf("the program did not say where its rings are:\n%s", stdout)
	}
	if _, err := os.Stat(rings[1]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of rings %s is left: %v", rings[1], err)
	}
}

// The events of a program that fails are recorded, too, and its failure is not hidden.
func TestRecordOfAProgramThatFails(t *testing.T) {
	code, stdout, stderr, _ := recordProgram(t, "100 fail")
	if code != 1 || !strings.Contains(stdout, "100 tuples") ||
		!strings.Contains(stderr, "exit status 5") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestRecordOfNothing(t *testing.T) {
	var dir string
	for _, what := range []string{"nothing", "0"} { // without channels, and with two empty ones
		var code int
		var stdout, stderr string
		code, stdout, stderr, dir = recordProgram(t, what)
		if code != 1 || !strings.Contains(stderr, "there is no run: the program logged no event") {
			t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%d entries are left, %v", len(left), err)
		}
	}
	for name, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no program":      {[]string{"record"}, 2, "PROGRAM is missing"},
		"no such program": {[]string{"record", "--", "/nosuch"}, 2, "/nosuch"},
		"a bad name":      {[]string{"record", "--run", "a/b", "--", "true"}, 2, `"/"`},
		"a name taken": {[]string{"record", "--run", "old", "--", "true"}, 2,
			"choose another name"},
		"attach to no number": {[]string{"attach", "x"}, 2, "give the number of a process"},
		"attach to nobody":    {[]string{"attach", "999999999"}, 1, "no such process"},
	} {
		if err := os.MkdirAll(filepath.Join(dir, "old"), 0o700); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if code := Run(t.Context(), test.args, &out, &out); code != test.code ||
			!strings.Contains(out.String(), test.says) {
			t.Errorf("%s: exit code %d: %s", name, code, out.String())
		}
	}
}

// Two programs that begin in the same second get runs of different names.
func TestRecordsOfOneSecond(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CLOUDPROFILER_RUNS", dir)
	now := time.Now()
	for s := range 100 { // the name that the command chooses is taken, whenever it begins
		at := now.Add(time.Duration(s) * time.Second).Format("-20060102-150405")
		if err := os.Mkdir(filepath.Join(dir, "true"+at), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	code := Run(t.Context(), []string{"record", "--no-capture", "--", "true"}, &out, &out)
	if code != 1 || !strings.Contains(out.String(), "nothing was recorded") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}

// A user who ends the program with ^C gets the answer.
func TestRecordThatTheUserEnds(t *testing.T) {
	t.Setenv("CLOUDPROFILER_RUNS", t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	t.Setenv(programVariable, "wait")
	argv, err := reexec.Argv()
	if err != nil {
		t.Fatal(err)
	}
	said, tell := io.Pipe()
	ended := make(chan int, 1)
	shell := []string{"record", "--no-capture", "--", "sh", "-c", `echo ready; exec "$@"`, "sh"}
	var errs bytes.Buffer
	go func() {
		ended <- Run(ctx, append(shell, argv...), tell, &errs)
		tell.Close()
	}()
	if _, err := io.ReadFull(said, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, said)
	stop()
	if code := <-ended; code != 1 || !strings.Contains(errs.String(), "logged no event") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

// The messages of a running program that logs nothing are captured.
func TestPrivilegedAttach(t *testing.T) {
	privileged.Need(t)
	t.Setenv("CLOUDPROFILER_RUNS", t.TempDir())
	argv, err := reexec.Argv()
	if err != nil {
		t.Fatal(err)
	}
	talker := exec.Command(argv[0], argv[1:]...)
	talker.Env = append(os.Environ(), programVariable+"=talk 127.0.0.1")
	if err := talker.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { talker.Wait(); close(ended) }()
	defer func() { talker.Process.Kill(); <-ended }()
	name := filepath.Base(argv[0])
	name = name[:min(len(name), 15)] // the kernel cuts names
	var out, errs bytes.Buffer
	code := Run(t.Context(), []string{"attach", "--for", "1s", strconv.Itoa(talker.Process.Pid)},
		&out, &errs)
	if (code != 0 && code != 3) ||
		!strings.Contains(out.String(), fmt.Sprintf("%s on", name)) {
		t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
}

// attachWithHosts runs "cprof attach" for a process. Before that, it moves this test's process into
// a namespace of mounts in which /etc/hosts is the given file hosts.
func attachWithHosts(process, hosts string) int {
	if err := errors.Join(syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount(hosts, "/etc/hosts", "", syscall.MS_BIND, "")); err != nil {
		fmt.Println(err)
		return 9
	}
	return Run(context.Background(), []string{"attach", "--for", "1s", process}, os.Stdout,
		os.Stderr)
}

// The answer calls a service by the name that /etc/hosts has for the service's address. The agent
// reads this name during the capture, and the name reaches the answer by way of the run.
func TestPrivilegedHostNames(t *testing.T) {
	privileged.Need(t)
	pair, err := netns.NewPair()
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	argv, err := reexec.Argv()
	if err != nil {
		t.Fatal(err)
	}
	address := pair.Addr(0).String()
	talker := exec.Command(argv[0], argv[1:]...)
	talker.Env = append(os.Environ(), programVariable+"=talk "+address)
	if err := pair.Do(0, talker.Start); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { talker.Wait(); close(ended) }()
	defer func() { talker.Process.Kill(); <-ended }()
	hosts := filepath.Join(t.TempDir(), "hosts")
	text := "127.0.0.1 localhost\n" + address + " echo.example echo\n10.255.255.1 other.example\n"
	if err := os.WriteFile(hosts, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	attach := exec.Command(argv[0], argv[1:]...)
	attach.Env = append(os.Environ(), "CLOUDPROFILER_RUNS="+t.TempDir(),
		fmt.Sprintf("%s=attach %d %s", programVariable, talker.Process.Pid, hosts))
	attach.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := attach.CombinedOutput()
	if !strings.Contains(string(out), " (echo, echo.example)") ||
		strings.Contains(string(out), "other.example") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestBarRecord measures how much time cprof record adds to a program that logs ten million events.
// It measures two times: until all events are in the run, and until the answer is printed.
func TestBarRecord(t *testing.T) {
	repetitions := 1
	if proof.Begin(t) == proof.Full {
		repetitions = 5
	}
	const tuples = 5_000_000
	took := regexp.MustCompile(`took ([0-9]+) ns, dropped ([0-9]+)\n`)
	var kept_s, answered_s []float64
	lost := 0.0
	for range repetitions {
		begun := time.Now()
		code, stdout, stderr, dir := recordProgram(t, strconv.Itoa(tuples))
		all_s := time.Since(begun).Seconds()
		said := took.FindStringSubmatch(stdout)
		if code != 0 || said == nil {
			t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
		}
		own_ns, _ := strconv.ParseFloat(said[1], 64)
		dropped, _ := strconv.ParseFloat(said[2], 64)
		lost += dropped
		if !strings.Contains(stdout, fmt.Sprintf("%d tuples\n", tuples)) {
			lost++
			t.Log(stdout)
		}
		// This is the answer that cprof record prints.
		begun = time.Now()
		run := filepath.Join(dir, "r")
		if code := Run(t.Context(), []string{"analyze", run}, io.Discard, io.Discard); code != 0 {
			t.Fatalf("cprof analyze: exit code %d", code)
		}
		analyze_s := time.Since(begun).Seconds()
		answered_s = append(answered_s, all_s-own_ns/1e9)
		kept_s = append(kept_s, all_s-own_ns/1e9-analyze_s)
		t.Logf("%.2f s: the program %.2f s, the answer %.2f s", all_s, own_ns/1e9, analyze_s)
	}
	proof.Check(t,
		proof.Bar{Name: "what cprof record adds to a program that logs 10⁷ events, until they " +
			"are in the run", Limit: 1, Unit: "s", Timing: true}.From(kept_s),
		proof.Bar{Name: "the same until the end of the answer", Limit: 1, Unit: "s",
			Timing: true}.From(answered_s),
		proof.Bar{Name: "events of that program that are not in the run", Figure: lost,
			Unit: "events"})
}
