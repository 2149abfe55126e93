package gen

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/generator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

type genSendFlags struct {
	tuples   tupleFlags
	channels channelFlags
	to       []string
	threads  int
	rate     float64
	duration time.Duration
	schedule string
	batch    int
	hwm      int
	late     time.Duration
	catchUp  float64
	giveUp   time.Duration
	patience time.Duration
	cores    []int
	realtime bool
	json     bool
}

func newGenSend() *cobra.Command {
	var flags genSendFlags
	cmd := &cobra.Command{
		Use:   "send",
		Short: "Send tuples, each when it is due, over ZeroMQ",
		Long: `Send tuples, each when it is due, over ZeroMQ: a PUSH socket for each thread.

--schedule, instead of --rate and --duration, says when tuples are due:
  constant:RATExDURATION            constant:250000x10s
  step:RATExDURATION,...            step:1000x5s,2000x5s,500x1m
  ramp:FROM-TOxDURATION             ramp:0-100000x30s
  burst:SIZE/PERIODxDURATION        burst:500/100msx10s
  poisson:RATExDURATION[@SEED]      poisson:50000x10s@7
  replay:FILE                       one time in seconds a line

Due times are never moved. A late tuple is sent late, no faster than --catch-up times the schedule.
A tuple later than --give-up is skipped. Each late tuple is counted with its cause: the engine
refused it, the thread was not running, or the thread was busy with earlier tuples. If a tuple
became due after the cause had ended, it is also counted as caught up. --core and --realtime give a
thread a core of its own, which keeps the thread running. The due time of a tuple is logged to the
channel generator#T/intended, and the time at which it was sent to generator#T/send, where T is the
thread. A latency from the due time is safe from coordinated omission.

Exit code 3: the numbers are marked. The receiver went away or was slow, tuples were skipped, or
this machine was too slow.`,
		Example: `  cprof gen send --to tcp://127.0.0.1:5555 --rate 100000 --duration 10s
  cprof gen send --to tcp://10.0.0.7:5555,tcp://10.0.0.7:5556 --rate 4e6 --duration 1m --batch 256
  cprof gen send --to tcp://127.0.0.1:5555 --schedule poisson:50000x10s --tuples events.json
  sudo cprof gen send --to tcp://127.0.0.1:5555 --rate 500000 --duration 10s --core 1 --realtime
  cprof gen send --to tcp://127.0.0.1:5555 --rate 1000 --duration 5s --json | jq .late`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runGenSend(cmd.Context(), flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringSliceVar(&flags.to, "to", nil, "addresses of the receiver, one for each "+
		"connection (required)")
	cmd.Flags().IntVar(&flags.threads, "threads", 0, "threads, each with a connection to one of "+
		"the addresses in turn (default: one for each address)")
	cmd.Flags().Float64Var(&flags.rate, "rate", 0, "tuples a second, of all threads together")
	cmd.Flags().DurationVar(&flags.duration, "duration",
		10*time.Second, "how long to send at --rate")
	cmd.Flags().StringVar(&flags.schedule, "schedule", "",
		"when tuples are due, instead of --rate and --duration")
	cmd.Flags().IntVar(&flags.batch, "batch", 1, "most tuples in one message, if they are due")
	cmd.Flags().IntVar(&flags.hwm, "high-water", 1000, "messages that may wait at each end "+
		"before the engine counts as refusing them")
	cmd.Flags().DurationVar(&flags.late, "late", 10*time.Microsecond, "how long after its due "+
		"time a tuple counts as late")
	cmd.Flags().Float64Var(&flags.catchUp, "catch-up",
		4, "how many times faster than scheduled late tuples may be sent, after as many "+
			"milliseconds' worth at once")
	cmd.Flags().DurationVar(&flags.giveUp, "give-up", time.Second, "how late a tuple may be and "+
		"still be sent")
	cmd.Flags().DurationVar(&flags.patience, "patience",
		5*time.Second, "how long to wait for the receiver at the start and at the end")
	cmd.Flags().IntSliceVar(&flags.cores, "core", nil, "cores to pin the threads to, one each in "+
		"turn; leave some to the rest of the program")
	cmd.Flags().BoolVar(&flags.realtime, "realtime", false, "run the threads with priority over "+
		"all others on their cores (SCHED_FIFO; needs root or CAP_SYS_NICE)")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object")
	flags.tuples.add(cmd)
	flags.channels.add(cmd)
	return cmd
}

// surelyReached is a rate, in tuples a second, that every machine reaches.
const surelyReached = 200_000

// scheduleOf returns the schedule that the flags ask for.
func scheduleOf(text string, rate float64, d time.Duration) (generator.Schedule, error) {
	if (text == "") == (rate == 0) {
		return nil, command.Usagef("give --rate or --schedule, and not both")
	}
	if text == "" {
		s, err := generator.Constant(rate, d)
		if err != nil {
			return nil, command.Usagef("--rate %g --duration %s: %v", rate, d, err)
		}
		return s, nil
	}
	s, err := generator.ParseSchedule(text,
		func(name string) (io.ReadCloser, error) { return os.Open(name) })
	if err != nil {
		return nil, command.Usagef("--schedule: %v", err)
	}
	return s, nil
}

func runGenSend(ctx context.Context, flags genSendFlags, stdout, stderr io.Writer) error {
	if len(flags.to) == 0 {
		return command.Usagef("--to is missing: the address of the receiver")
	}
	if err := checkEndpoints("to", flags.to); err != nil {
		return err
	}
	if flags.threads == 0 {
		flags.threads = len(flags.to)
	}
	schedule, err := scheduleOf(flags.schedule, flags.rate, flags.duration)
	if err != nil {
		return err
	}
	tuples, err := flags.tuples.load()
	if err != nil {
		return err
	}
	notices := &noticeWriter{w: stderr, line: command.NewProgress(stderr)}
	var sender *generator.Sender
	ready := make(chan struct{})
	connect := func(thread int) (generator.Sink, error) {
		to := flags.to[thread%len(flags.to)]
		return generator.NewPush(ctx, to, generator.PushOptions{
			Batch: flags.batch, HighWater: flags.hwm, Patience: flags.patience,
			Peer: func(gone bool) {
				<-ready
				if sender == nil {
					return
				}
				if gone {
					sender.Mark(generator.ReceiverGone,
						fmt.Sprintf("%s: the connection broke: messages on their way may be lost",
							to))
				} else {
					notices.say(generator.Notice{Mark: generator.ReceiverGone,
						Text: to + ": the connection is back"})
				}
			},
		})
	}
	sender, err = generator.NewSender(generator.SenderOptions{
		Schedule: schedule, Tuples: tuples, Threads: flags.threads, Connect: connect,
		Batch: flags.batch, LateAfter: flags.late,
		CatchUp: flags.catchUp, GiveUp: flags.giveUp, Cores: flags.cores, Realtime: flags.realtime,
		Log: flags.channels.options(), Notice: notices.say,
	})
	close(ready)
	if err != nil {
		return asUsage(err)
	}
	// If this machine cannot reach the rate even without a receiver, report that before the run.
	// Every machine reaches rates up to surelyReached.
	if rate := schedule.Tuples() / schedule.Duration().Seconds(); rate > surelyReached {
		most, err := generator.Ceiling(ctx, tuples, flags.threads, flags.batch)
		if err != nil {
			return err
		}
		if rate > most {
			sender.Mark(generator.Behind,
				fmt.Sprintf("the rate is %.4g tuples a second, but even without an engine this "+
					"machine sends only %.4g: it will not reach the rate", rate, most))
		}
	}
	stop :=
		showRepeatedly(func() {
			notices.show("%d of %.0f tuples sent", sender.Sent(), schedule.Tuples())
		})
	r, err := sender.Run(ctx)
	stop()
	notices.line.Done()
	if flags.json {
		err = cmp.Or(err, printSendJSON(stdout, schedule, r))
	} else {
		printSend(stdout, schedule, r)
	}
	return cmp.Or(err, marksError(r.Marks))
}

func printSend(w io.Writer, schedule generator.Schedule, r generator.SenderResult) {
	us := func(q float64) float64 { return float64(r.SendLag.ValueAtQuantile(q)) / 1e3 }
	fmt.Fprintf(w, "schedule     %s\n", schedule)
	fmt.Fprintf(w, "sent         %d of %d tuples in %.3f s: %.0f a second; the schedule has %.0f\n",
		r.Sent, r.Scheduled, r.Elapsed.Seconds(), r.AchievedRate, r.IntendedRate)
	if r.Skipped+r.Unsent > 0 {
		fmt.Fprintf(w, "not sent     %d too late, %d given up\n", r.Skipped, r.Unsent)
	}
	fmt.Fprintf(w, "late         %d: %s\n", r.Late, r.Lateness)
	fmt.Fprintf(w, "due to sent  p50 %.1f µs, p99 %.1f µs, p99.9 %.1f µs, max %.1f µs\n",
		us(50), us(99), us(99.9), float64(r.SendLag.Max())/1e3)
	fmt.Fprintf(w, "refused      %d times, for %.3f s in all\n",
		r.BlockedSends, r.Blocked.Seconds())
	if r.Drops != "" {
		fmt.Fprintf(w, "not logged   %s\n", r.Drops)
	}
	printMarks(w, r.Marks)
}

// sendLine is what "cprof gen send --json" prints. Scripts read it, so fields may only be added.
type sendLine struct {
	Schedule     string             `json:"schedule"`
	Scheduled    uint64             `json:"scheduled"`
	Sent         uint64             `json:"sent"`
	Skipped      uint64             `json:"skipped"`
	Unsent       uint64             `json:"unsent"`
	Late         generator.Lateness `json:"late"`
	LagP50_ns    int64              `json:"lag_p50_ns"`
	LagP99_ns    int64              `json:"lag_p99_ns"`
	LagP999_ns   int64              `json:"lag_p999_ns"`
	LagMax_ns    int64              `json:"lag_max_ns"`
	BlockedSends uint64             `json:"blocked_sends"`
	Blocked_ns   int64              `json:"blocked_ns"`
	Elapsed_ns   int64              `json:"elapsed_ns"`
	IntendedRate float64            `json:"intended_rate"`
	AchievedRate float64            `json:"achieved_rate"`
	Marks        []generator.Marked `json:"marks"`
	NotLogged    string             `json:"not_logged,omitempty"`
}

func printSendJSON(w io.Writer, schedule generator.Schedule, r generator.SenderResult) error {
	return json.NewEncoder(w).Encode(sendLine{
		Schedule: schedule.String(), Scheduled: r.Scheduled, Sent: r.Sent, Skipped: r.Skipped,
		Unsent: r.Unsent, Late: r.Lateness,
		LagP50_ns: r.SendLag.ValueAtQuantile(50), LagP99_ns: r.SendLag.ValueAtQuantile(99),
		LagP999_ns: r.SendLag.ValueAtQuantile(99.9), LagMax_ns: r.SendLag.Max(),
		BlockedSends: r.BlockedSends, Blocked_ns: int64(r.Blocked), Elapsed_ns: int64(r.Elapsed),
		IntendedRate: r.IntendedRate, AchievedRate: r.AchievedRate,
		Marks: r.Marks, NotLogged: r.Drops,
	})
}
