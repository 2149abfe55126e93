package gen

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/generator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

type genReceiveFlags struct {
	channels    channelFlags
	at          string
	connections int
	senders     int
	hwm         int
	decode      string
	workers     int
	silence     time.Duration
	patience    time.Duration
	json        bool
}

func newGenReceive() *cobra.Command {
	var flags genReceiveFlags
	cmd := &cobra.Command{
		Use:   "receive",
		Short: "Receive tuples over ZeroMQ, and check every one",
		Long: `Receive tuples over ZeroMQ, and check that each comes, only once and in order.

Each connection has a PULL socket and a thread. The first is at --at, the others at the ports after
it. With --decode json, other threads (--workers) decode each tuple into an object, as an engine
would. The arrival of a tuple is logged to the channel receiver#C/recv, where C is the connection.
The command ends when every sender has announced its end, or falls silent.

Exit code 3: the numbers are marked. Tuples were lost, came twice or were malformed, or a sender
went away.`,
		Example: `  cprof gen receive --at tcp://*:5555
  cprof gen receive --at tcp://*:5555 --connections 2 --decode json --workers 2
  cprof gen receive --at tcp://127.0.0.1:5555 --json | jq .lost`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runGenReceive(cmd.Context(), flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&flags.at, "at", "tcp://127.0.0.1:5555", "address to listen at")
	cmd.Flags().IntVar(&flags.connections, "connections",
		1, "sockets, each at the port after that of the one before")
	cmd.Flags().IntVar(&flags.senders, "senders",
		1, "threads of senders that will use each connection")
	cmd.Flags().IntVar(&flags.hwm, "high-water", 1000, "messages that may wait in each socket")
	cmd.Flags().StringVar(&flags.decode, "decode", "none",
		"make objects of the tuples: none or json")
	cmd.Flags().IntVar(&flags.workers, "workers", 0, "threads that decode each connection's "+
		"tuples, besides the one that receives them")
	cmd.Flags().DurationVar(&flags.silence, "silence", 5*time.Second, "how long a connection may "+
		"be silent before the command gives it up")
	cmd.Flags().DurationVar(&flags.patience, "patience",
		0, "how long to wait for the first tuple; 0 waits forever")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object")
	flags.channels.add(cmd)
	return cmd
}

// portsFrom returns n addresses. The first one is the given address. The others differ from it only
// in the port, which counts up by one from address to address.
func portsFrom(at string, n int) ([]string, error) {
	if n == 1 {
		return []string{at}, nil
	}
	i := strings.LastIndexByte(at, ':')
	port, err := strconv.Atoi(at[i+1:])
	if !strings.HasPrefix(at, "tcp://") || err != nil || port < 1 || port+n-1 > 65535 {
		return nil, command.Usagef("--at %q --connections %d: several connections need tcp and a "+
			"port number", at, n)
	}
	var list []string
	for k := range n {
		list = append(list, fmt.Sprintf("%s:%d", at[:i], port+k))
	}
	return list, nil
}

func runGenReceive(ctx context.Context, flags genReceiveFlags, stdout, stderr io.Writer) error {
	if err := checkEndpoints("at", []string{flags.at}); err != nil {
		return err
	}
	if flags.connections < 1 || flags.connections > 256 {
		return command.Usagef("--connections %d: give 1 to 256", flags.connections)
	}
	if flags.decode != "none" && flags.decode != "json" {
		return command.Usagef("--decode %q: want none or json", flags.decode)
	}
	list, err := portsFrom(flags.at, flags.connections)
	if err != nil {
		return err
	}
	notices := &noticeWriter{w: stderr, line: command.NewProgress(stderr)}
	o := generator.ReceiverOptions{Senders: flags.senders, Silence: flags.silence,
		Patience: flags.patience, Log: flags.channels.options(), Notice: notices.say}
	for _, at := range list {
		pull, err := generator.NewPull(at, generator.PullOptions{HighWater: flags.hwm})
		if err != nil {
			for _, s := range o.Sources {
				s.Close()
			}
			return asUsage(err)
		}
		o.Sources = append(o.Sources, pull)
	}
	receive, received, err := receiverFor(o, flags)
	if err != nil {
		for _, s := range o.Sources {
			s.Close()
		}
		return asUsage(err)
	}
	stop := showRepeatedly(func() { notices.show("%d tuples received", received()) })
	r, err := receive(ctx)
	stop()
	notices.line.Done()
	if flags.json {
		err = cmp.Or(err, printReceiveJSON(stdout, r))
	} else {
		printReceive(stdout, r, flags.decode != "none")
	}
	return cmp.Or(err, marksError(r.Marks))
}

// receiverFor makes a receiver. If the flags ask to decode tuples, it makes a factory instead. For
// each connection, one consumer takes decoded tuples from the factory and drops them.
func receiverFor(o generator.ReceiverOptions,
	flags genReceiveFlags) (run func(context.Context) (generator.FactoryResult, error),
	received func() uint64, err error) {
	if flags.decode == "none" {
		r, err := generator.NewReceiver(o)
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) (generator.FactoryResult, error) {
			result, err := r.Run(ctx)
			return generator.FactoryResult{ReceiverResult: result}, err
		}, r.Received, nil
	}
	f, err := generator.NewFactory(generator.FactoryOptions[map[string]any]{Receiver: o,
		Decode: generator.JSON[map[string]any](), Workers: flags.workers})
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) (generator.FactoryResult, error) {
		for i := range o.Sources {
			go func() {
				for c := f.Consumer(i); ; {
					if _, ok := c.Next(); !ok {
						return
					}
				}
			}()
		}
		return f.Run(ctx)
	}, f.Received, nil
}

// asUsage turns an error about options into a usage error, because options come from the command
// line.
func asUsage(err error) error {
	if errors.Is(err, generator.ErrOptions) {
		return command.UsageError{Err: err}
	}
	return err
}

func printReceive(w io.Writer, r generator.FactoryResult, decoded bool) {
	fmt.Fprintf(w, "received     %d tuples of %d senders in %.3f s: %.0f a second\n",
		r.Received, r.Sources, r.Elapsed.Seconds(), r.Rate)
	fmt.Fprintf(w, "checked      %d lost, %d twice, %d out of order, %d malformed; %d of %d "+
		"senders announced their end\n", r.Lost, r.Duplicates, r.Reordered, r.Malformed, r.Ended,
		r.Sources)
	if decoded {
		fmt.Fprintf(w, "decoded      %d objects, %d refused by the decoder; %d buckets waited "+
			"for the consumer\n", r.Objects, r.Undecodable, r.FullQueues)
	}
	if r.Drops != "" {
		fmt.Fprintf(w, "not logged   %s\n", r.Drops)
	}
	printMarks(w, r.Marks)
}

// receiveLine is what "cprof gen receive --json" prints. Scripts read it, so fields may only be
// added.
type receiveLine struct {
	generator.Check
	Elapsed_ns  int64              `json:"elapsed_ns"`
	Rate        float64            `json:"rate"`
	Objects     uint64             `json:"objects"`
	Undecodable uint64             `json:"undecodable"`
	FullQueues  uint64             `json:"full_queues"`
	Marks       []generator.Marked `json:"marks"`
	NotLogged   string             `json:"not_logged,omitempty"`
}

func printReceiveJSON(w io.Writer, r generator.FactoryResult) error {
	return json.NewEncoder(w).Encode(receiveLine{
		Check: r.Check, Elapsed_ns: int64(r.Elapsed), Rate: r.Rate, Objects: r.Objects,
		Undecodable: r.Undecodable, FullQueues: r.FullQueues,
		Marks: r.Marks, NotLogged: r.Drops,
	})
}
