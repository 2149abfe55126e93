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

// A command ("cprof relate") can ask a client directly, without a coordinating server. The client
// runs a control.Server of its own, to which the command sends control.Ask messages. If no keys are
// configured, only commands on the same machine can reach it.

// These are the questions that a command may ask.
const (
	AskNode   = "node"   // describe the node; the answer is a NodeAnswer
	AskTrains = "trains" // run trains; argument TrainsArgument, answer TrainsAnswer
)

// NodeAnswer is the answer to AskNode.
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

// TrainsArgument says with which node to run trains, and how.
type TrainsArgument struct {
	control.Target
	control.Manner
	Trains   int   `json:"trains"` // at most maxAskedTrains
	Gap_ns   int64 `json:"gap_ns"`
	Limit_ns int64 `json:"limit_ns"`
}

// maxAskedTrains is the largest number of trains for one question. With this number, the answer
// still fits into one message.
const maxAskedTrains = 100

// TrainsAnswer is the answer to AskTrains.
type TrainsAnswer struct {
	// Pair contains the trains, as an encoded tscratio.Pair of this node (A) and the peer (B). If
	// no train succeeded, it is empty.
	Pair []byte `json:"pair,omitempty"`

	Epoch   string         `json:"epoch"`
	Trains  int            `json:"trains"`
	Lost    uint64         `json:"lost,string"`        // number of answers that did not arrive
	WhyUser map[string]int `json:"why_user,omitempty"` // number of user stamps for each reason
	Error   string         `json:"error,omitempty"`    // why fewer trains were run than requested
	Refused bool           `json:"refused,omitempty"`  // the peer's stamps cannot be true
}

// Commands answers commands' questions to a client. Any goroutine may use it.
type Commands struct {
	client   *Client
	server   *control.Server
	software string
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// maxQuestions is the largest number of questions that a client works on at the same time.
const maxQuestions = 16

// ServeCommands starts to answer commands' questions. Commands learn the name and version of the
// client's program from the parameter software.
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

// Close stops answering and abandons trains that are under way.
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
		if in.Revoked { // the key's owner may have passed on probe keys
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
			// If the command has ended meanwhile, nobody needs the answer.
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
		if err := pair.Add(provenConstraints(t)); err != nil {
			return TrainsAnswer{}, explainImpossible(err)
		}
		countUserStamps(t, answer.WhyUser)
	}
	answer.Pair = pair.Encode()
	return answer, nil
}
