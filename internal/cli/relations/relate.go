package relations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

type relateFlags struct {
	seconds   float64
	trains    int
	exchanges int
	out       string
	key       string
	public    []string
	wander    command.WanderFlag
	userOnly  bool
	json      bool
}

func newRelate() *cobra.Command {
	var flags relateFlags
	cmd := &cobra.Command{
		Use: "relate HOST:PORT HOST:PORT",
		Short: "Relate the counters of two nodes without a server: run trains between two " +
			"tsc-clients, and print what the trains prove",
		Long: `Relate the counters of two nodes without a server: run trains of probes between two
tsc-clients, in both directions, and print how exactly readings of one counter can be translated
into cycles of the other.

HOST:PORT is the address at which a tsc-client takes commands (the key "command" of its
configuration). Without keys, both nodes must be on this machine. With keys, they may be anywhere:
--key is your own secret key, of role admin, and --node-key is the public key of both nodes. If the
nodes have different keys, give --node-key twice, in the order of the nodes. Without --node-key, the
command does not read $CLOUDPROFILER_KEY.

If a node stops answering, the measurement ends, and the error names the node. The result then rests
on what was measured before. If a node's stamps cannot be true, or its answers are older than the
measurement, the command refuses them and names the node.

Exit code 1: nothing was measured, or the data refute every bound. Exit code 3: the relation is
suspect, or parts are missing.`,
		Example: `  tsc-client --node a --command 127.0.0.1:7340 &
  tsc-client --node b --command 127.0.0.1:7350 &
  cprof relate 127.0.0.1:7340 127.0.0.1:7350
  cprof relate 127.0.0.1:7340 127.0.0.1:7350 --seconds 60 -o a--b.rel
  cprof relate node1:7340 node2:7340 --key me.secret --node-key server.public --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(flags.public) == 0 && !cmd.Flags().Changed("key") {
				flags.key = "" // two nodes on this machine, while the variable is for a fleet
			}
			return relate(cmd.Context(), flags, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().Float64Var(&flags.seconds, "seconds", 10, "measure for this long")
	cmd.Flags().IntVar(&flags.trains, "trains",
		0, "total number of trains (default: four a second)")
	cmd.Flags().IntVar(&flags.exchanges, "exchanges", 5, "exchanges of a train, after its warm-up")
	cmd.Flags().StringVarP(&flags.out, "output", "o", "",
		"write the constraints to this `file`, which must not exist")
	cmd.Flags().StringVar(&flags.key, "key", os.Getenv("CLOUDPROFILER_KEY"),
		"file of your secret key, of role admin; $CLOUDPROFILER_KEY")
	cmd.Flags().StringArrayVar(&flags.public, "node-key", nil,
		"the nodes' public key `file`; may be given twice")
	cmd.Flags().Var(&flags.wander, "wander", "assume this `wander`, such as 0.2ppm or 50ppb "+
		"(default 1ppm); \"cprof doctor --wander\" measures what is justified")
	cmd.Flags().BoolVar(&flags.userOnly, "user-stamps",
		false, "use no kernel stamps in the node that starts a train; for answers, set "+
			"--user-stamps of that tsc-client")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object")
	return cmd
}

const (
	relateTimeout = 3 * time.Second // longest wait for an answer, beyond the time for its work
	trainTimeout  = 2 * time.Second // how long to wait for one train
	giveUpAfter   = 3               // number of failed trains in a row after which relate gives up
)

// relateNode is one of the two tsc-clients that relate asks.
type relateNode struct {
	where   string // address from the command line
	client  *control.Client
	answer  tscclient.NodeAnswer
	address netip.AddrPort // address of the node's answerer, as the other node reaches it
}

func (n *relateNode) String() string {
	if n.answer.Name == "" {
		return n.where
	}
	return fmt.Sprintf("%q at %s", n.answer.Name, n.where)
}

// ask asks the node a question and waits for its answer.
func (n *relateNode) ask(ctx context.Context, what string, argument, result any,
	limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit+relateTimeout)
	defer cancel()
	return n.client.Ask(ctx, what, argument, result)
}

// meet connects to the node and asks for its description.
func (n *relateNode) meet(ctx context.Context, key *control.Key,
	publics func() ([]string, error)) error {
	config := control.ClientConfig{Server: n.where, Key: key, Publics: publics}
	var err error
	if n.client, err = control.Dial(config); err != nil {
		return err
	}
	if err := n.ask(ctx, tscclient.AskNode, nil, &n.answer, 0); err != nil {
		if errors.Is(err, control.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("no tsc-client answers at %s: is it running, with --command %s, "+
				"and do the keys fit? (%w)", n.where, n.where, err)
		}
		return fmt.Errorf("ask %s what it is: %w", n.where, err)
	}
	if n.address, err = netip.ParseAddrPort(n.answer.ProbeAddress); err != nil {
		return fmt.Errorf("node %v answers probes at %q: %w", n, n.answer.ProbeAddress, err)
	}
	return nil
}

// reach finds the address at which the other node can send probes to n, and puts it into n.address.
func (n *relateNode) reach(ctx context.Context, other *relateNode) error {
	own, err := resolve(ctx, n.where)
	if err != nil {
		return err
	}
	others, err := resolve(ctx, other.where)
	if err != nil {
		return err
	}
	switch a := n.address.Addr(); {
	case a.IsUnspecified():
		n.address = netip.AddrPortFrom(own, n.address.Port())
	case a.IsLoopback() && !(own.IsLoopback() && others.IsLoopback()):
		return fmt.Errorf("node %v answers probes at %v, which only its own machine reaches: "+
			"start its tsc-client with --probes 0.0.0.0:7341, for example", n, n.address)
	}
	return nil
}

func resolve(ctx context.Context, where string) (netip.Addr, error) {
	host, _, err := net.SplitHostPort(where)
	if err != nil {
		return netip.Addr{}, command.Usagef("%q: want HOST:PORT", where)
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(addresses) == 0 {
		return netip.Addr{}, fmt.Errorf("find the address of %q: %w", host, err)
	}
	return addresses[0].Unmap(), nil
}

// measurement is the result of trains between two nodes.
type measurement struct {
	pair    *tscratio.Pair
	lost    uint64
	whyUser map[string]int
	problem error // why the measurement ended early; nil if it did not
}

func relate(ctx context.Context, flags relateFlags, where []string, stdout,
	stderr io.Writer) error {
	if err := flags.check(where); err != nil {
		return err
	}
	nodes, err := meetBoth(ctx, flags, where)
	for _, n := range nodes {
		if n.client != nil {
			defer n.client.Close()
		}
	}
	if err != nil {
		return err
	}
	line := command.NewProgress(stderr)
	m, err := measurePair(ctx, flags, nodes, line)
	line.Done()
	if err != nil {
		return err
	}
	if m.pair.Trains() == 0 {
		return fmt.Errorf("nothing was measured: %w", m.problem)
	}
	m.pair.Prune()
	if flags.out != "" {
		if err := writeNew(flags.out, m.pair.Encode()); err != nil {
			return err
		}
	}
	relation, why := m.pair.Relate(tscratio.SideA, m.pair.Declared.Wander)
	if why != nil {
		why = explainRelate(why, m.pair.Declared.Wander, m.pair.Declared.MaxWander)
	}
	s := summarize(m.pair, relation, why)
	if flags.json {
		err = json.NewEncoder(stdout).Encode(m.json(s, flags.out))
	} else {
		err = m.print(stdout, s, flags.out)
	}
	switch verdict := s.err(); {
	case err != nil:
		return err
	case m.problem != nil && relation != nil:
		return fmt.Errorf("ended early: %w: %w", m.problem, command.ErrPartial)
	case m.problem != nil:
		return fmt.Errorf("ended early: %w; %w", m.problem, verdict)
	default:
		return verdict
	}
}

func (f *relateFlags) check(where []string) error {
	for _, w := range where {
		if _, _, err := net.SplitHostPort(w); err != nil {
			return command.Usagef("%q: want HOST:PORT, where a tsc-client takes commands", w)
		}
	}
	switch {
	case where[0] == where[1]:
		return command.Usagef("both nodes are %s: name two", where[0])
	case !(f.seconds > 0 && f.seconds <= 24*3600):
		return command.Usagef("--seconds %g: want more than 0, at most a day", f.seconds)
	case f.trains < 0 || f.trains > 1_000_000:
		return command.Usagef("--trains %d: want 2 to 1,000,000", f.trains)
	case f.exchanges < 1 || f.exchanges > 1000:
		return command.Usagef("--exchanges %d: want 1 to 1000", f.exchanges)
	case (f.key == "") != (len(f.public) == 0):
		return command.Usagef("--key and --node-key: give both, or neither")
	case len(f.public) > 2:
		return command.Usagef("--node-key: given %d times for two nodes", len(f.public))
	}
	if f.trains == 0 {
		f.trains = max(2, int(f.seconds*4))
	}
	if f.out != "" {
		if _, err := os.Lstat(f.out); err == nil {
			return command.Usagef("--output %q exists already: choose another name", f.out)
		}
	}
	return nil
}

func meetBoth(ctx context.Context, flags relateFlags, where []string) ([2]*relateNode, error) {
	nodes := [2]*relateNode{{where: where[0]}, {where: where[1]}}
	var own *control.Key
	var publics [2]func() ([]string, error)
	if flags.key != "" {
		key, err := control.ReadKey(flags.key)
		if err != nil {
			return nodes, err
		}
		own = &key
		for i := range publics {
			path := flags.public[min(i, len(flags.public)-1)]
			publics[i] = func() ([]string, error) { return control.ReadServerKeys(path) }
			if _, err := publics[i](); err != nil {
				return nodes, err
			}
		}
	}
	for i, n := range nodes {
		if err := n.meet(ctx, own, publics[i]); err != nil {
			return nodes, err
		}
	}
	if a, b := nodes[0], nodes[1]; a.answer.Name == b.answer.Name {
		return nodes,
			fmt.Errorf("both nodes are named %q: start one tsc-client with another --node",
				a.answer.Name)
	}
	return nodes, errors.Join(nodes[0].reach(ctx, nodes[1]), nodes[1].reach(ctx, nodes[0]))
}

// measurePair runs trains, spread evenly over the measuring time. The two nodes start them in turn.
func measurePair(ctx context.Context, flags relateFlags, nodes [2]*relateNode,
	line *command.Progress) (*measurement, error) {
	assumptions := tscratio.DefaultAssumptions()
	if flags.wander.Given {
		assumptions.Wander, assumptions.MaxWander = flags.wander.Value,
			max(16*flags.wander.Value, assumptions.MaxWander)
	}
	pair, err := tscratio.NewPair(nodes[0].answer.Node(), nodes[1].answer.Node(), assumptions)
	if err != nil {
		return nil, err
	}
	m := &measurement{pair: pair, whyUser: map[string]int{}}
	begin := time.Now()
	span := time.Duration(flags.seconds * 1e9)
	gap := span / time.Duration(max(1, flags.trains-1))
	failures := 0
	bound := "…"
	judged := begin
	for i := range flags.trains {
		if wait := time.Until(begin.Add(time.Duration(i) * gap)); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			m.problem = errors.New("interrupted")
			break
		}
		refused, err := m.train(ctx, flags, nodes[i%2], nodes[1-i%2])
		switch {
		case err == nil:
			failures, m.problem = 0, nil
		case refused:
			return nil, err
		default:
			failures++
			m.problem = err
		}
		if failures == giveUpAfter || errors.Is(err, errSilent) {
			break
		}
		if now := time.Now(); now.Sub(judged) > time.Second {
			judged = now
			if r, err := pair.Relate(tscratio.SideA, assumptions.Wander); err == nil {
				bound = formatMicroseconds(quantile(summarize(pair, r, nil).halves_us,
					0.5)) + ", " +
					r.Verdict.String()
			}
		}
		line.Show("%s and %s: %d of %d trains, %.0f of %.0f s, bound ± %s", nodes[0].answer.Name,
			nodes[1].answer.Name,
			i+1, flags.trains, time.Since(begin).Seconds(), flags.seconds, bound)
	}
	if ctx.Err() == nil && failures < giveUpAfter && !errors.Is(m.problem, errSilent) {
		m.problem = nil // a few lost trains do not make the others useless
	}
	return m, nil
}

// errSilent is the error if a node no longer answers commands.
var errSilent = errors.New("no longer answers: was it stopped, or cut off?")

// The method train makes one node (from) run a train with another node (to). If refused is true,
// the measurement must stop: the stamps of the second node cannot be true, or the counter of the
// first node was interrupted.
func (m *measurement) train(ctx context.Context, flags relateFlags, from,
	to *relateNode) (refused bool, err error) {
	a := to.answer
	var answer tscclient.TrainsAnswer
	err = from.ask(ctx, tscclient.AskTrains, tscclient.TrainsArgument{
		Target: control.Target{
			Peer: a.Name, PeerEpoch: a.Epoch, Address: to.address.String(), Key: a.ProbeKey,
			Nominal_hz: a.Nominal_hz, Quantum_cycles: a.Quantum_cycles,
			CoreSlack_cycles: a.CoreSlack_cycles,
		},
		Manner: control.Manner{Exchanges: flags.exchanges, Timeout_ns: 200e6, Attempts: 3,
			UserStamps: flags.userOnly},
		Trains: 1, Limit_ns: int64(trainTimeout),
	}, &answer, trainTimeout)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, control.ErrUnreachable):
		return false, fmt.Errorf("node %v %w", from, errSilent)
	case err != nil:
		return false, fmt.Errorf("node %v: %w", from, err)
	case answer.Refused:
		return true, fmt.Errorf("node %v is refused: %s", to, answer.Error)
	case answer.Epoch != "" && answer.Epoch != from.answer.Epoch:
		return true, fmt.Errorf("node %v is in epoch %q now and was in %q: its counter was "+
			"interrupted; measure again", from, answer.Epoch, from.answer.Epoch)
	}
	m.lost += answer.Lost
	for why, n := range answer.WhyUser {
		m.whyUser[why] += n
	}
	if len(answer.Pair) > 0 {
		part, err := tscratio.DecodePair(answer.Pair)
		if err != nil {
			return false, fmt.Errorf("node %v: %w", from, err)
		}
		part.Declared = m.pair.Declared // allowed, because nothing was pruned
		if err := m.pair.Merge(part); err != nil {
			return false, fmt.Errorf("node %v: %w", from, err)
		}
	}
	if answer.Error != "" {
		return false, fmt.Errorf("node %v: %s", from, answer.Error)
	}
	return false, nil
}

// writeNew writes a file that must not exist yet. If writing fails, no file is left behind.
func writeNew(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".relate-*")
	if err != nil {
		return fmt.Errorf("write %q: %w", name, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Link(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("write %q: %w", name, err)
	}
	return nil
}

// print writes the summary at the end of a measurement.
func (m *measurement) print(w io.Writer, s *summary, file string) error {
	if err := s.print(w); err != nil {
		return err
	}
	if m.lost > 0 {
		fmt.Fprintf(w, "%-15s %d answers\n", "lost", m.lost)
	}
	for _, why := range slices.Sorted(maps.Keys(m.whyUser)) {
		fmt.Fprintf(w, "%-15s %d stamps: %s\n", "not by kernel",
			m.whyUser[why], strings.TrimSuffix(strings.TrimPrefix(why, "user ("), ")"))
	}
	_, err := fmt.Fprintf(w, "\n%s\n", m.hint(s, file))
	return err
}

// hint returns advice: what the user can do with the measured relation, or how to get a better one.
func (m *measurement) hint(s *summary, file string) string {
	switch {
	case s.relation == nil && len(s.contradictions()) > 0:
		return "An assumption is broken: look at both machines with \"cprof doctor\", and for " +
			"how steadily their counters run with \"cprof doctor --wander\"."
	case s.relation == nil:
		return "Measure for longer: --seconds."
	case s.relation.Verdict == tscratio.Suspect:
		return "Measure again with a larger --wander: \"cprof doctor --wander\" says on each " +
			"machine what is justified."
	case file == "":
		return "To keep this, translate readings with it or draw it, measure again with " +
			"-o FILE.rel."
	}
	return fmt.Sprintf("Kept in %s. Next: cprof relation plot %s; cprof relation "+
		"translate %s COUNT", file, file, file)
}

// relateJSON is the line that "cprof relate --json" prints. Scripts read it, so fields may only be
// added.
type relateJSON struct {
	relationJSON
	Lost    uint64         `json:"lost_answers"`
	WhyUser map[string]int `json:"why_user,omitempty"`
	File    string         `json:"file,omitempty"`
	Problem string         `json:"problem,omitempty"`
}

func (m *measurement) json(s *summary, file string) relateJSON {
	j := relateJSON{relationJSON: s.json(), Lost: m.lost, WhyUser: m.whyUser, File: file}
	if m.problem != nil {
		j.Problem = m.problem.Error()
	}
	return j
}
