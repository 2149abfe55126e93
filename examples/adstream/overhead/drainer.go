package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// Another process drains, as an agent does in production. So the time of draining is measured
// separately, and no stretch includes time for draining the events of an earlier stretch.

// drained is a drainer's result.
type drained struct {
	Events  uint64
	Dropped uint64
}

// drainer is a process that drains.
type drainer struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	out   io.ReadCloser
}

func startDrainer(command []string, rings, logs string) (*drainer, error) {
	if err := os.MkdirAll(filepath.Dir(rings), 0o700); err != nil {
		return nil, fmt.Errorf("start drainer: %w", err)
	}
	if err := ring.MakeDirectory(rings); err != nil {
		return nil, err
	}
	args := slices.Concat(command[1:], []string{rings, logs})
	d := &drainer{cmd: exec.Command(command[0], args...)}
	d.cmd.Stderr = os.Stderr
	var err error
	if d.input, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if d.out, err = d.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start drainer: %w", err)
	}
	return d, nil
}

// stop waits until the drainer has drained the remaining events and has ended.
func (d *drainer) stop() (result drained, err error) {
	d.input.Close()
	if err := json.NewDecoder(d.out).Decode(&result); err != nil {
		return result, fmt.Errorf("stop drainer: %w", err)
	}
	if err := d.cmd.Wait(); err != nil {
		return result, fmt.Errorf("stop drainer: %w", err)
	}
	return result, nil
}

// cpu returns the processor time that the drainer's threads have taken.
func (d *drainer) cpu() (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", d.cmd.Process.Pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("read the drainer's processor time from /proc: %w",
			errors.Join(err, os.ErrNotExist))
	}
	sum := time.Duration(0)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		var ns int64
		if _, err := fmt.Sscan(string(text), &ns); err != nil {
			return 0, fmt.Errorf("read the drainer's processor time from %q: %w", file, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// kill ends the drainer if it still runs.
func (d *drainer) kill() {
	if d.cmd.ProcessState == nil {
		d.cmd.Process.Kill()
		d.cmd.Wait()
	}
}

// beDrainer is the drainer's main function: it drains rings into logs until its input ends.
func beDrainer(rings, logs string, in io.Reader, out io.Writer) error {
	d, err := drain.Start(rings, drain.Options{Logs: logs})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	err = errors.Join(err, d.Flush())
	total := d.Stats().Total
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(drained{total.Events, total.Dropped})
}
