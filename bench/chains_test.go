package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// chainCPUs are the microarchitectures that llvm-mca judges, in the order of the table's columns.
var chainCPUs = map[string][]string{
	"amd64": {"sapphirerapids", "icelake-server", "skylake-avx512", "znver4", "znver3", "znver2"},
	"arm64": {"neoverse-n1", "neoverse-v1", "neoverse-n2"},
}

// goCalls lists the paths that common log calls take through the assembly code. The field jumps has
// a letter for each conditional jump on the path: t if the jump is taken, n if it is not.
var goCalls = []struct{ row, symbol, jumps string }{
	{"Go: id, buffered", "log", "nn"},
	{"Go: first-last", "log", "ttnnn"},
	{"Go: id with rdtsc", "log", "tntnnt"},
	{"Go: shared", "putPinned", "nnt"},
	{"Go: counter", "log", "tnnnt"},
	{"Go: counter, shared", "log", "tnnnnnntn"},
	{"Go: xoy, not kept", "log", "tnnnntn"},
	{"Go: downsample, not kept", "log", "tnnnnntn"},
}

// TestBarChains uses llvm-mca to compute, for microarchitectures that are not at hand, the cost of
// a log call before and after it reads the counter. No figure may be above the same figure in
// docs/performance-cpus.md. There, a cell of the table contains "before + after, uops".
//
// The reading of the counter overlaps with no other instruction. So there are two times, in cycles.
// "before" is the time from the call's first instruction until all instructions before the reading
// have executed. "after" is the time from the reading until the call's last instruction has
// executed. "uops" is the number of the call's micro-operations without those of the reading.
//
// The figures have limits. The models know no cache misses, and no forwarding from a store to a
// load of the same address. A store counts as executed when its address and data are known, because
// the models disagree about when a store ends. The reading itself is left out, because the models
// only guess its latency. Calls and returns are left out, too. The caller's instructions, which
// store the arguments of the call in Go, are not judged. Go's log call on arm64 is not judged
// either, because it is compiled Go and not assembly.
func TestBarChains(t *testing.T) {
	bar := proof.Bar{Name: "chains and uops around the reading above their limits", Unit: "figures"}
	for _, tool := range []string{"llvm-mca-19", "llvm-objdump-19", "gcc",
		"aarch64-linux-gnu-gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			bar.Absent = fmt.Sprintf("no %s here: scripts/install mca", tool)
			proof.Check(t, bar)
			t.Skip(bar.Absent)
		}
	}
	regions := map[string]string{
		"amd64": goRegions(t) + callRegions(t, "C: id, buffered", compiledC(t, "gcc")),
		"arm64": callRegions(t, "C: id, buffered", compiledC(t, "aarch64-linux-gnu-gcc")),
	}
	// The go command reuses an old result if no file changed that the test has read. So the test
	// reads the header, which otherwise only the compiler reads.
	if _, err := os.ReadFile("../sdk/c/include/cloudprofiler.h"); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/performance-cpus.md")
	if err != nil {
		t.Fatal(err)
	}
	for arch, cpus := range chainCPUs {
		table := map[string][]string{}
		for _, cpu := range cpus {
			for row, cell := range judgeChains(t, arch, cpu, regions[arch]) {
				table[row] = append(table[row], cell)
			}
		}
		for row, cells := range table {
			line := fmt.Sprintf("| %s | %s |", row, strings.Join(cells, " | "))
			_, limits, found := strings.Cut(string(page), fmt.Sprintf("| %s, %s | ", row, arch))
			if limits, _, _ = strings.Cut(limits, "\n"); !found ||
				strings.Count(limits, "|") != len(cells) {
				t.Errorf("docs/performance-cpus.md has no such row for %s: %s", arch, line)
				continue
			}
			for i, limit := range strings.Split(limits, " | ")[:len(cells)] {
				if n := countAbove(t, cells[i], limit); n > 0 {
					t.Errorf("%s on %s: %s, limit %s", row, cpus[i], cells[i], limit)
					bar.Figure += float64(n)
				}
			}
			t.Log(arch, line)
		}
	}
	proof.Check(t, bar)
}

// countAbove counts how many numbers of a cell are larger than the corresponding numbers of another
// cell.
func countAbove(t *testing.T, cell, limit string) (n int) {
	t.Helper()
	numbers := func(s string) (v [3]int) {
		if _, err := fmt.Sscanf(s, "%d + %d, %d", &v[0], &v[1], &v[2]); err != nil {
			t.Fatalf("parse %q as before + after, uops: %v", s, err)
		}
		return v
	}
	got, want := numbers(cell), numbers(limit)
	for i := range got {
		if got[i] > want[i] {
			n++
		}
	}
	return n
}

// judgeChains lets llvm-mca judge all calls for one CPU. It returns the cells of the CPU's column,
// by the row's name.
func judgeChains(t *testing.T, arch, cpu, regions string) map[string]string {
	t.Helper()
	triple := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch] + "-linux-gnu"
	cmd := exec.Command("llvm-mca-19", "-mtriple="+triple, "-mcpu="+cpu, "-iterations=1",
		"-timeline", "-timeline-max-cycles=0", "-json", "-")
	cmd.Stdin = strings.NewReader(regions)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("llvm-mca for %s: %v\n%s", cpu, err, complaints.String())
	}
	var judged struct {
		CodeRegions []struct {
			Name                string
			InstructionInfoView struct {
				InstructionList []struct {
					NumMicroOpcodes   int
					MayLoad, MayStore bool
				}
			}
			TimelineView struct {
				TimelineInfo []struct{ CycleIssued, CycleExecuted int }
			}
		}
	}
	if err := json.Unmarshal(out, &judged); err != nil {
		t.Fatalf("llvm-mca for %s: %v", cpu, err)
	}
	type cell struct{ chains, uops [2]int }
	cells := map[string]*cell{}
	for _, r := range judged.CodeRegions {
		row, part, _ := strings.Cut(r.Name, "; ")
		if cells[row] == nil {
			cells[row] = &cell{}
		}
		after := 0
		if part == "after" {
			after = 1
		}
		for i, instruction := range r.InstructionInfoView.InstructionList {
			at := r.TimelineView.TimelineInfo[i]
			end := at.CycleExecuted
			if instruction.MayStore && !instruction.MayLoad {
				end = at.CycleIssued + 1
			}
			cells[row].chains[after] = max(cells[row].chains[after], end)
			cells[row].uops[after] += instruction.NumMicroOpcodes
		}
	}
	texts := map[string]string{}
	for row, c := range cells {
		texts[row] = fmt.Sprintf("%d + %d, %d", c.chains[0], c.chains[1], c.uops[0]+c.uops[1])
	}
	return texts
}

// The expression reading matches the instructions that read the counter, and isb, the barrier that
// precedes the reading on arm64.
var reading = regexp.MustCompile(`^(rdtscp?|isb|mrs\s.*)$`)

// callRegions returns the instructions of one call as regions for llvm-mca: what stands before the
// reading of the counter, and what stands after it.
func callRegions(t *testing.T, row string, instructions []string) string {
	t.Helper()
	parts := [2][]string{}
	after := 0
	for _, text := range instructions {
		if reading.MatchString(text) {
			after = 1
		} else {
			parts[after] = append(parts[after], text)
		}
	}
	text := ""
	for i, name := range []string{"before", "after"} {
		if len(parts[i]) > 0 {
			text += fmt.Sprintf("# LLVM-MCA-BEGIN %s; %s\n%s\n# LLVM-MCA-END\n", row, name,
				strings.Join(parts[i], "\n"))
		}
	}
	if len(parts[0]) == 0 {
		t.Fatalf("%s: no instruction before the reading", row)
	}
	return text
}

// goRegions builds a program for amd64, and returns the calls of goCalls as regions for llvm-mca.
func goRegions(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "first")
	build := exec.Command("go", "build", "-o", program, "../examples/first")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build a program that logs: %v\n%s", err, out)
	}
	text := ""
	for _, c := range goCalls {
		symbol := "github.com/cloudprofiler/cloudprofiler/handlers." + c.symbol + ".abi0"
		out, err := exec.Command("llvm-objdump-19", "-d", "--no-show-raw-insn",
			"--disassemble-symbols="+symbol, program).Output()
		if err != nil {
			t.Fatal(err)
		}
		path, err := instructionsOf(string(out), c.jumps)
		if err != nil {
			t.Fatalf("%s: %v: has the assembly of the log call changed?", c.row, err)
		}
		text += callRegions(t, c.row, path)
	}
	return text
}

// asmPattern matches an instruction, and the target if it is a jump. llvm-objdump prints
// "lock" on a line of its own.
var asmPattern = regexp.MustCompile(`(?m)^ *([0-9a-f]+):\s+(?:lock\n\s+.*:\s+)?((j?)[a-z].*)$`)

// instructionsOf returns the instructions that a function executes from its start to its return, if
// its conditional jumps go as the parameter jumps says.
func instructionsOf(disassembly, jumps string) ([]string, error) {
	var all [][]string
	at := map[string]int{}
	for _, m := range asmPattern.FindAllStringSubmatch(disassembly, -1) {
		if strings.Contains(m[0], "lock\n") {
			m[2] = "lock " + m[2]
		}
		at[m[1]] = len(all)
		all = append(all, m)
	}
	var path []string
	for i := 0; i < len(all) && len(path) < len(all); {
		text, _, _ := strings.Cut(all[i][2], "#")
		text, _, _ = strings.Cut(text, "<")
		text = strings.Join(strings.Fields(text), " ")
		if strings.HasPrefix(text, "ret") {
			if jumps != "" {
				return nil, fmt.Errorf("returns before the jumps %q", jumps)
			}
			return path, nil
		}
		path = append(path, text)
		i++
		if all[i-1][3] == "" {
			continue
		}
		taken := strings.HasPrefix(text, "jmp ")
		if !taken {
			if jumps == "" {
				return nil, fmt.Errorf("unexpected jump: %s", text)
			}
			taken, jumps = jumps[0] == 't', jumps[1:]
		}
		if taken {
			target, ok := at[strings.TrimPrefix(text[strings.Index(text, " ")+1:], "0x")]
			if !ok {
				return nil, fmt.Errorf("leaves the function: %s", text)
			}
			i = target
		}
	}
	return nil, fmt.Errorf("no return")
}

// compiledC returns the instructions of an inline log call in C. The compiler puts the common case
// first, up to the first return.
func compiledC(t *testing.T, compiler string) []string {
	t.Helper()
	cmd := exec.Command(compiler, "-std=c11", "-O2", "-ffreestanding", "-I../sdk/c/include",
		"-fno-asynchronous-unwind-tables", "-S", "-o", "-", "-x", "c", "-")
	cmd.Stdin = strings.NewReader("#include \"cloudprofiler.h\"\n" +
		"void call(cp_channel *c, uint64_t id) { cp_log(c, id); }\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", compiler, err)
	}
	_, code, _ := strings.Cut(string(out), "\ncall:\n")
	var path []string
	for line := range strings.Lines(code) {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "ret"):
			return path
		case text != "" && !strings.ContainsAny(text[:1], ".#/") && !strings.HasSuffix(text, ":"):
			path = append(path, text)
		}
	}
	t.Fatalf("%s: no return in\n%s", compiler, code)
	return nil
}
