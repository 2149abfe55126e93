package answers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/replay/question/wire"
)

// questionProgram is the program that searches for an order in which a condition holds. It is not a
// part of cprof, because the implementation of the language of conditions is large.
const questionProgram = "cprof-question"

// findQuestion looks for questionProgram in this program's directory first, because a program on
// the PATH may be of another version. Tests replace this function.
var findQuestion = func() ([]string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), questionProgram)
		if _, err := os.Stat(beside); err == nil {
			return []string{beside}, nil
		}
	}
	path, err := exec.LookPath(questionProgram)
	return []string{path}, err
}

// answerOf sends a request to questionProgram and returns its response. A mistake in an expression
// is a usage error.
func answerOf(ctx context.Context, r *wire.Request) (*wire.Response, error) {
	argv, err := findQuestion()
	if err != nil {
		return nil, fmt.Errorf("--find: %w: %s must be beside cprof or on the PATH", err,
			questionProgram)
	}
	r.Version = wire.Version
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("--find: %w", err)
	}
	var out, errs bytes.Buffer
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(text), &out, &errs
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("--find: %s: %w: %s", argv[0], err, bytes.TrimSpace(errs.Bytes()))
	}
	var answer wire.Response
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("--find: read the answer of %s: %w", argv[0], err)
	}
	if answer.Version != wire.Version {
		return nil, fmt.Errorf("--find: %s answers in version %d: cprof knows version %d: install "+
			"both of the same release", argv[0], answer.Version, wire.Version)
	}
	if answer.Bad != "" {
		return nil, command.UsageError{Err: errors.New("--find: " + answer.Bad)}
	}
	return &answer, nil
}

// search looks for an order after which the condition holds.
func (r *replayed) search(ctx context.Context, ask *wire.Request) (err error) {
	h := r.history
	for i := range h.Events {
		e := &h.Events[i]
		c := &h.Channels[e.Channel]
		ask.Events = append(ask.Events, wire.Event{Node: h.Nodes[e.Node], Channel: c.Name,
			Actor: c.Actor, Point: c.Point, Handler: c.Handler, ID: e.ID})
		ask.Lanes = append(ask.Lanes, int(e.Node))
		ask.Need = append(ask.Need, r.orders.Need(i))
	}
	r.Condition = ask.Find
	r.Found, err = answerOf(ctx, ask)
	return err
}
