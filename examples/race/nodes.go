package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/demo"
)

// A bank is an account on the first of three virtual nodes, and a teller on each node. It
// implements demo.Engine: the demonstration of an engine runs it like a cluster, measures the
// nodes' clocks and collects the logs.
type bank struct {
	self     string // this program
	deposits int    // of each teller

	nodes   []demo.EngineNode
	account *exec.Cmd
	address string
	lost    uint64 // what the account lacks in the end
}

// runOnNodes runs the tellers and keeps the run in a directory, which it makes.
func runOnNodes(ctx context.Context, keep string, deposits int, brief bool) (*bank, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &bank{self: self, deposits: deposits}
	_, err = demo.RunEngine(ctx, demo.Options{
		Command: []string{self, "process"}, Keep: keep, Program: "examples/race", Brief: brief,
		Scratch: os.TempDir(),
	}, b, time.Second)
	return b, err
}

// Nodes returns the number of tellers.
func (b *bank) Nodes() int { return 3 }

// Start starts the account.
func (b *bank) Start(ctx context.Context, nodes []demo.EngineNode, _ string) error {
	b.nodes = nodes
	b.account = exec.CommandContext(ctx, b.self, "-account",
		nodes[0].Address.String()+":0")
	out, err := b.account.StdoutPipe()
	if err != nil {
		return err
	}
	b.account.Stderr = os.Stderr
	if err := nodes[0].Do(b.account.Start); err != nil {
		return fmt.Errorf("start the account: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	b.address = strings.TrimSpace(line)
	if err != nil {
		return fmt.Errorf("start the account: read its address: %w", err)
	}
	return nil
}

// Run starts all tellers and lets them make their deposits. Each waits until its standard input
// ends, so that all begin at the same time.
func (b *bank) Run(ctx context.Context) error {
	var tellers []*exec.Cmd
	var begin []io.Closer
	var errs []error
	for i, n := range b.nodes {
		c := exec.CommandContext(ctx, b.self, "-teller", strconv.Itoa(i+1), "-deposits",
			strconv.Itoa(b.deposits), "-wait", b.address)
		c.Env = append(os.Environ(), "CLOUDPROFILER_DIR="+n.Rings)
		c.Stderr = os.Stderr
		in, err := c.StdinPipe()
		if err == nil {
			err = n.Do(c.Start)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("start teller %d: %w", i+1, err))
			continue
		}
		tellers, begin = append(tellers, c), append(begin, in)
	}
	for _, in := range begin {
		in.Close()
	}
	for i, c := range tellers {
		if err := c.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("teller %d: %w", i+1, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	c, err := net.Dial("tcp", b.address)
	if err != nil {
		return err
	}
	defer c.Close()
	balance, err := askBalance(c, 0, 0)
	if err != nil {
		return err
	}
	for t := range b.nodes {
		for i := range b.deposits {
			b.lost += amountOf(t+1, i)
		}
	}
	b.lost -= balance
	return nil
}

// Stop stops the account.
func (b *bank) Stop() {
	if b.account != nil && b.account.Process != nil {
		b.account.Process.Kill()
		b.account.Wait()
		b.account = nil
	}
}
