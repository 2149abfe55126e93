package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// An asker is a process in the hub's namespace that asks the server questions. The test process
// cannot ask them itself, because each fleet has namespaces of its own: all ZeroMQ clients of a
// process share one thread, and this thread stays in the network namespace in which it began.
type asker struct {
	process  *exec.Cmd
	requests *json.Encoder
	answers  *json.Decoder
}

type askerRequest struct {
	What     string
	Argument json.RawMessage
	Limit    time.Duration
}

type askerAnswer struct {
	Result json.RawMessage
	Error  string // "" if there is a result
}

func startAsker(cmd *exec.Cmd, start func() error) (*asker, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := start(); err != nil {
		return nil, err
	}
	return &asker{cmd, json.NewEncoder(in), json.NewDecoder(out)}, nil
}

// ask returns the server's answer, or the reason why there was no answer within the limit.
func (a *asker) ask(what string, argument any, limit time.Duration) (json.RawMessage, error) {
	text, err := json.Marshal(argument)
	if err != nil {
		return nil, err
	}
	if err := a.requests.Encode(askerRequest{what, text, limit}); err != nil {
		return nil, err
	}
	var answer askerAnswer
	if err := a.answers.Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	return answer.Result, nil
}

// serveAsker runs in the asker's process. It answers requests until its input ends.
func serveAsker(link *control.Client) error {
	requests, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var r askerRequest
		if err := requests.Decode(&r); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := answers.Encode(r.put(link)); err != nil {
			return err
		}
	}
}

func (r askerRequest) put(link *control.Client) askerAnswer {
	ctx, cancel := context.WithTimeout(context.Background(), r.Limit)
	defer cancel()
	m, err := link.Call(ctx, &control.Ask{What: r.What, Argument: r.Argument})
	if err != nil {
		return askerAnswer{Error: err.Error()}
	}
	a, ok := m.(*control.Answer)
	if !ok {
		return askerAnswer{Error: "not an answer, but " + m.Kind().String()}
	}
	return askerAnswer{Result: a.Result}
}
