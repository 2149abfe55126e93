package tscclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// This file lets a command ("cprof relate") ask a client directly, without a server. The command
// sends control.Ask messages to a control.Server that the client runs. Without keys, only commands
// on this machine can reach it.

// Questions that a command may ask.
const (
	AskNode   = "node"   // describe the node: NodeAnswer
	AskTrains = "trains" // run trains with another node (TrainsArgument): TrainsAnswer
)

// NodeAnswer answers AskNode.
type NodeAnswer struct {
	Name             string `json:"name"`
	Epoch            string `json:"epoch"`
	Nominal_hz       uint64 `json:"nominal_hz,string"`
	Quantum_cycles   uint64 `json:"quantum_cycles,string"`
	CoreSlack_cycles uint64 `json:"core_slack_cycles,string"`
	ProbeAddress     string `json:"probe_address"`
	ProbeKey         []byte `json:"probe_key,omitempty"`
	Software         string `json:"software"`
}

// Node returns the answer as a tscratio.Node.
func (a NodeAnswer) Node() tscratio.Node {
	return tscratio.Node{
		Name: a.Name, Epoch: a.Epoch, Nominal_hz: a.Nominal_hz,
		Quantum_cycles: a.Quantum_cycles, CoreSlack_cycles: a.CoreSlack_cycles,
	}
}

// TrainsArgument determines the node to run trains with, and how to run them.
type TrainsArgument struct {
	control.Target
	control.Manner
	Trains   int   `json:"trains"` // at most maxAskedTrains
	Gap_ns   int64 `json:"gap_ns"`
	Limit_ns int64 `json:"limit_ns"`
}

// maxAskedTrains is the largest number of trains for one question. Their answer still fits into a
// message.
const maxAskedTrains = 100

// A TrainsAnswer is the result of the trains.
type TrainsAnswer struct {
	// Pair is an encoded pair of this node (A) and the peer (B), with the trains. It is empty if
	// there are no trains.
	Pair []byte `json:"pair,omitempty"`

	Epoch   string         `json:"epoch"`
	Trains  int            `json:"trains"`
	Lost    uint64         `json:"lost,string"`        // answers that did not arrive
	WhyUser map[string]int `json:"why_user,omitempty"` // reasons for user stamps
	Error   string         `json:"error,omitempty"`    // why fewer trains were run than asked for
	Refused bool           `json:"refused,omitempty"`  // the peer's stamps cannot be true
}

// Commands answers the questions of commands to a client. Any goroutine may use it.
type Commands struct {
	client   *Client
	server   *control.Server
	software string
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// maxQuestions is the number of questions that are worked on at once.
const maxQuestions = 16

// ServeCommands begins to answer commands. software is how the client describes itself.
func ServeCommands(c *Client, config control.ServerConfig, software string) (*Commands, error) {
	server, err := control.Listen(config)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Commands{client: c, server: server, software: software, stop: stop}
	s.running.Add(1)
	go s.serve(ctx)
	return s, nil
}

// Address returns the host:port at which commands reach the client.
func (s *Commands) Address() string { return s.server.Address() }

// Close stops answering. Trains that are under way are abandoned.
func (s *Commands) Close() error {
	s.stop()
	s.running.Wait()
	return s.server.Close()
}

func (s *Commands) serve(ctx context.Context) {
	defer s.running.Done()
	room := make(chan struct{}, maxQuestions)
	for {
		in, err := s.server.Receive(ctx)
		if err != nil {
			return
		}
		if in.Revoked { // its owner may have received probe keys, and passed them on
			s.client.RenewSecret()
			continue
		}
		ask, ok := in.Message.(*control.Ask)
		if !ok {
			if in.Message != nil && in.Message.Kind() != control.KindRefusal &&
				in.Message.Kind() != control.KindLeave {
				_ = s.server.Send(in.Peer, in.Request, control.Refuse(control.UnknownKind,
					"this is a node, not a server: it only answers questions"))
			}
			continue
		}
		select {
		case room <- struct{}{}:
		default:
			_ = s.server.Send(in.Peer, in.Request, control.Refuse(control.NotNow,
				fmt.Sprintf("%d questions are being worked on: ask again later", maxQuestions)))
			continue
		}
		s.running.Add(1)
		go func() {
			defer s.running.Done()
			defer func() { <-room }()
			// An answer to a command that is gone may get lost.
			_ = s.server.Send(in.Peer, in.Request, s.answer(ctx, ask))
		}()
	}
}

func (s *Commands) answer(ctx context.Context, ask *control.Ask) control.Message {
	var result any
	var err error
	switch ask.What {
	case AskNode:
		result, err = s.node()
	case AskTrains:
		result, err = s.trains(ctx, ask.Argument)
	default:
		return control.Refuse(control.UnknownKind, fmt.Sprintf("a node cannot answer %q", ask.What))
	}
	if err != nil {
		return control.Refuse(control.Failed, err.Error())
	}
	text, err := json.Marshal(result)
	if err != nil {
		return control.Refuse(control.Failed, err.Error())
	}
	return &control.Answer{Result: text}
}

func (s *Commands) node() (NodeAnswer, error) {
	if _, err := s.client.Check(); err != nil {
		return NodeAnswer{}, err
	}
	n := s.client.Node()
	return NodeAnswer{
		Name: n.Name, Epoch: n.Epoch, Nominal_hz: n.Nominal_hz,
		Quantum_cycles: n.Quantum_cycles, CoreSlack_cycles: n.CoreSlack_cycles,
		ProbeAddress: s.client.Address().String(), ProbeKey: s.client.Key().Encode(),
		Software: s.software,
	}, nil
}

func (s *Commands) trains(ctx context.Context, argument []byte) (TrainsAnswer, error) {
	var a TrainsArgument
	if err := json.Unmarshal(argument, &a); err != nil {
		return TrainsAnswer{}, fmt.Errorf("trains: %w", err)
	}
	if a.Trains < 1 || a.Trains > maxAskedTrains ||
		a.Limit_ns < 1 || a.Limit_ns > int64(maxBatchTime) || a.Gap_ns < 0 {
		return TrainsAnswer{}, fmt.Errorf("%d trains within %v: ask for 1 to %d, within 1 ns to %v",
			a.Trains, time.Duration(a.Limit_ns), maxAskedTrains, maxBatchTime)
	}
	p, err := peerOf(a.Target)
	if err != nil {
		return TrainsAnswer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(a.Limit_ns))
	defer cancel()
	b := runBatch(ctx, s.client, p, mannerOf(a.Manner), a.Trains, time.Duration(a.Gap_ns))
	answer := TrainsAnswer{Epoch: b.Epoch, Trains: len(b.Trains), Lost: b.Lost}
	if b.Err != nil {
		answer.Error = b.Err.Error()
		answer.Refused = errors.Is(b.Err, tscratio.ErrImpossible) ||
			errors.Is(b.Err, minrtt.ErrReplayed)
	}
	if len(b.Trains) == 0 {
		return answer, nil
	}
	own := s.client.Node()
	own.Epoch = b.Epoch
	pair, err := tscratio.NewPair(own, p.Node, s.client.Config().Assumptions)
	if err != nil {
		return TrainsAnswer{}, err
	}
	answer.WhyUser = map[string]int{}
	for _, t := range b.Trains {
		if err := pair.Add(constraints(t)); err != nil {
			return TrainsAnswer{}, explain(err)
		}
		countUserStamps(t, answer.WhyUser)
	}
	answer.Pair = pair.Encode()
	return answer, nil
}
