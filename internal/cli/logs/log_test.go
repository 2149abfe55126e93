package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

const sampleLogFile = "../../../logstore/testdata/v1-compressed.cplog"

func sampleBytes(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile(sampleLogFile)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// writeDamaged writes the bytes of a damaged log to a file, and returns the file's path.
func writeDamaged(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.cplog")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// declareVersion returns a copy of a log. Its header is undamaged, but declares the given version
// and format.
func declareVersion(t *testing.T, log []byte, versionAndFormat string) []byte {
	t.Helper()
	head, rest, found := bytes.Cut(log, []byte("crc32c "))
	if !found || !bytes.HasPrefix(head, []byte("cloudprofiler-log 1 compressed\n")) {
		t.Fatalf("not a log of version 1: %.40q", log)
	}
	head = bytes.Replace(head, []byte("1 compressed"), []byte(versionAndFormat), 1)
	sum := crc32.Checksum(head, crc32.MakeTable(crc32.Castagnoli))
	return fmt.Appendf(head, "crc32c %08x%s", sum, rest[8:])
}

func TestLogCheckSaysWhatIsWrong(t *testing.T) {
	sample := sampleBytes(t)
	flip := func(at int) []byte {
		b := slices.Clone(sample)
		b[at] ^= 0x10
		return b
	}
	tests := map[string]struct {
		bytes []byte
		code  int
		say   []string
	}{
		"whole": {sample, 0, []string{"whole", "sealed", "events, shard 0: 600 rows"}},
		"torn": {sample[:len(sample)*2/3], 3, []string{"NOT WHOLE", "damage: ", "torn",
			"not sealed"}},
		"a flipped bit": {flip(len(sample) / 2), 3, []string{"NOT WHOLE", "damage: ",
			"checksum", "missing: "}},
		"a damaged header": {flip(40), 1, []string{"cannot be read", "cprof log salvage"}},
		"empty": {nil, 1, []string{"cannot be read", "not a log",
			"nothing was ever written"}},
		"one byte": {sample[:1], 1, []string{"cannot be read"}},
		"all zero": {make([]byte, 4096), 1, []string{"cannot be read", "not a log",
			"lost its beginning"}},
		"another file": {[]byte("#!/bin/sh\necho hello\n"), 1, []string{"cannot be read",
			"not a log"}},
		"of a later time": {declareVersion(t, sample, "9 compressed"), 1, []string{"cannot be read",
			"unknown log version", "9", "it is whole"}},
		"of a format that is gone": {declareVersion(t, sample, "1 ascii"), 1,
			[]string{"cannot be read", `format "ascii"`, "use the cprof that wrote it"}},
		"a block repeated": {slices.Concat(sample, sample[len(sample)/2:]), 3,
			[]string{"damage: "}},
		"junk in the midst": {slices.Concat(sample[:len(sample)/2], []byte("junk"),
			sample[len(sample)/2:]), 3, []string{"damage: "}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := writeDamaged(t, test.bytes)
			code, out, errs := cprof("log", "check", path)
			if code != test.code {
				t.Errorf("exit code %d, want %d\n%s%s", code, test.code, out, errs)
			}
			for _, say := range test.say {
				if !strings.Contains(out, say) {
					t.Errorf("no %q in\n%s", say, out)
				}
			}
			_, out, _ = cprof("log", "check", "--json", path)
			var line checkLine
			if err := json.Unmarshal([]byte(out), &line); err != nil {
				t.Fatalf("%v in %q", err, out)
			}
			if line.Whole != (test.code == 0) || (line.Unread != "") != (test.code == 1) {
				t.Errorf("JSON: %+v", line)
			}
		})
	}
}

func TestLogDump(t *testing.T) {
	code, out, _ := cprof("log", "dump", sampleLogFile)
	if code != 0 || !strings.Contains(out, "# "+sampleLogFile+": channel map#3/start") ||
		strings.Count(out, "\nevents ") != 3600 {
		t.Errorf("exit code %d, %d events\n%.300s", code, strings.Count(out, "\nevents "), out)
	}
	_, limited, _ := cprof("log", "dump", "--limit", "5", sampleLogFile)
	if n := strings.Count(limited, "\n"); n != 6 {
		t.Errorf("--limit 5: %d lines", n)
	}
	code, out, errs := cprof("log", "dump", "--json", "--from", "1829587348620070", "--to",
		"1829587348620720", sampleLogFile)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var row map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &row); code != 0 || err != nil ||
		row["counter"] != "1829587348620070" || row["id"] != "1125899906842624" ||
		row["channel"] != "map#3/start" {
		t.Errorf("exit code %d, %v, %v\n%s%s", code, err, row, out, errs)
	}
	if code, _, errs := cprof("log", "dump", writeDamaged(t, sampleBytes(t)[:9000])); code != 3 ||
		!strings.Contains(errs, "cprof log check") {
		t.Errorf("torn: %d %s", code, errs)
	}
	if code, out, errs := cprof("log", "dump", "--from", "2", "--to", "1",
		sampleLogFile); code != 2 || out != "" || !strings.Contains(errs, "above") {
		t.Errorf("--from above --to: %d %.100s %s", code, out, errs)
	}
	if code, _, errs := cprof("log", "dump", t.TempDir()); code != 1 ||
		!strings.Contains(errs, "no file in it or below it ends in .cplog") {
		t.Errorf("an empty directory: %d %s", code, errs)
	}
}

func TestLogSalvage(t *testing.T) {
	dir := t.TempDir()
	torn := writeDamaged(t, sampleBytes(t)[:9000])
	to := filepath.Join(dir, "whole.cplog")
	code, out, errs := cprof("log", "salvage", torn, to)
	if code != 3 || !strings.Contains(out, "rows to "+to) {
		t.Errorf("salvage: %d %s%s", code, out, errs)
	}
	if code, out, _ := cprof("log", "check", to); code != 0 {
		t.Errorf("what was salvaged is not whole: %s", out)
	}
	if code, _, errs := cprof("log", "salvage", writeDamaged(t, []byte("hello")),
		to+"2"); code != 1 ||
		!strings.Contains(errs, "not a log") {
		t.Errorf("no log: %d %s", code, errs)
	}
	headless := sampleBytes(t)
	headless[40] ^= 0x10
	if code, out, errs := cprof("log", "salvage", writeDamaged(t, headless), to+"3"); code != 3 ||
		!strings.Contains(out, "3,617 rows") || !strings.Contains(errs, "no row of its blocks") {
		t.Errorf("a damaged header: %d %s%s", code, out, errs)
	}
}

// "cprof log check" compares the logs of a directory with its manifest, and also reports a log that
// has lost all of its files.
func TestLogsThatAreGone(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i, channelName := range []string{"a/x", "b/x"} {
		name, err := channel.ParseName(channelName)
		if err != nil {
			t.Fatal(err)
		}
		h := logstore.Header{Channel: name, Incarnation: logstore.Incarnation{byte(i)}}
		h.Settings.Kind = channel.Buffered
		l, err := logstore.OpenLog(nil, dir, h, 1)
		if err != nil {
			t.Fatal(err)
		}
		for k := range uint64(2) {
			b := logstore.Block{Incarnation: h.Incarnation, First: k, Events: []logstore.Event{{}}}
			if err := l.Append(&b); err != nil {
				t.Fatal(err)
			}
			file := logstore.SegmentName(name, h.Incarnation, int(k))
			paths = append(paths, filepath.Join(dir, file))
		}
		if err := l.Seal(); err != nil {
			t.Fatal(err)
		}
	}
	if err := logstore.ExtendManifest(dir, nil); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := cprof("log", "check", dir); code != 0 ||
		strings.Count(out, "sealed, and it ends here") != 2 {
		t.Errorf("nothing is gone: %d %s%s", code, out, errs)
	}
	os.Remove(paths[1])
	os.Remove(paths[2])
	os.Remove(paths[3])
	code, out, _ := cprof("log", "check", dir)
	if code != 3 || strings.Count(out, "NOT WHOLE") != 2 ||
		strings.Count(out, "it is gone") != 3 || !strings.Contains(out, "nothing of it is left") {
		t.Errorf("three segments are gone: %d %s", code, out)
	}
	for _, verb := range []string{"stat", "dump"} {
		if code, out, errs := cprof("log", verb, dir); code != 3 ||
			!strings.Contains(errs, "2 of 2 logs are damaged or lack rows") {
			t.Errorf("%s: %d %s%s", verb, code, out, errs)
		}
	}
	_, out, _ = cprof("log", "check", "--json", dir)
	var line checkLine
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&line); err != nil || line.Whole ||
		line.Then != "next" || len(line.Lacks) != 2 {
		t.Errorf("%v: %s", err, out)
	}
	os.Remove(filepath.Join(dir, logstore.ManifestName))
	if code, out, _ := cprof("log", "check", dir); code != 3 ||
		!strings.Contains(out, "segment 1 and what came behind it are gone") {
		t.Errorf("without a manifest: %d %s", code, out)
	}
}

func TestLogStat(t *testing.T) {
	code, out, _ := cprof("log", "stat", "--json", sampleLogFile)
	var s statLine
	if err := json.Unmarshal([]byte(out), &s); code != 0 || err != nil || s.Events != 3600 ||
		s.Channel != "map#3/start" || s.Dropped != 18 || s.BytesPerRow <= 0 {
		t.Errorf("%d %v %+v", code, err, s)
	}
	if code, out, _ := cprof("log", "stat", sampleLogFile); code != 0 ||
		!strings.Contains(out, "3,600") {
		t.Errorf("%d %s", code, out)
	}
	hurried := filepath.Join(t.TempDir(), "h.cplog")
	w, err := logstore.Create(nil, hurried, logstore.Header{
		Node: "a", NodeNumber: 1, Epoch: "e", Channel: channel.Name{Actor: "map", Point: "start"},
		Settings: channel.Settings{Kind: channel.Buffered},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(3) {
		if err := w.Append(&logstore.Block{First: 9 * i, Hurried: i > 0,
			Events: make([]logstore.Event, 9)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Seal(); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := cprof("log", "stat", hurried); code != 0 ||
		!strings.Contains(out, "2 of 3 blocks are packed and not compressed") {
		t.Errorf("%d %s", code, out)
	}
	torn := writeDamaged(t, sampleBytes(t)[:9000])
	code, out, errs := cprof("log", "stat", torn)
	if code != 3 || !strings.Contains(out, "NOT WHOLE: 700 rows missing") ||
		!strings.Contains(errs, "cprof log check") {
		t.Errorf("torn: %d %s%s", code, out, errs)
	}
	code, out, _ = cprof("log", "stat", "--json", torn)
	s = statLine{}
	if err := json.Unmarshal([]byte(out), &s); code != 3 || err != nil || s.Whole ||
		s.Missing != 700 {
		t.Errorf("torn, as JSON: %d %v %+v", code, err, s)
	}
}

// The logs of a run are in directories below the run's directory, one for each node.
func TestLogStatOfARun(t *testing.T) {
	run := t.TempDir()
	if code, _, errs := cprof("log", "stat", run); code != 1 ||
		!strings.Contains(errs, "no file in it or below it ends in .cplog") {
		t.Errorf("an empty directory: %d %s", code, errs)
	}
	for _, node := range []string{"a", "b"} {
		dir := filepath.Join(run, "logs", node)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		h := logstore.Header{Node: node, NodeNumber: 1, Epoch: "e",
			Channel:     channel.Name{Actor: "an-operator-with-a-long-name", Point: "start"},
			Incarnation: logstore.Incarnation{1},
			Settings:    channel.Settings{Kind: channel.Buffered}}
		w, err := logstore.Create(nil,
			filepath.Join(dir, logstore.SegmentName(h.Channel, h.Incarnation, 0)), h)
		if err != nil {
			t.Fatal(err)
		}
		err = w.Append(&logstore.Block{Incarnation: h.Incarnation,
			Events: make([]logstore.Event, 1234)})
		if err := errors.Join(err, w.Seal()); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := cprof("log", "stat", run)
	if code != 0 || strings.Count(out, "1,234") != 2 || !strings.Contains(out, "logs/a: an-op") ||
		!strings.Contains(out, "logs/b: an-op") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, line := range lines {
		if len(line) != len(lines[0]) {
			t.Errorf("columns do not stand below each other:\n%s", out)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000",
		12345678: "12,345,678"} {
		if got := command.Thousands(n); got != want {
			t.Errorf("command.Thousands(%d) = %s, want %s", n, got, want)
		}
	}
}
