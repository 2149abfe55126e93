package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// A Daemon is a command that serves until it is told to end. C is its configuration: a struct, each field of which has a tag
// `mapstructure:"key"`.
type Daemon[C any] struct {
	Name    string
	Short   string
	Long    string // without what holds for all daemons: where the configuration comes from, and exit codes
	Example string

	// Flags gives each key a flag of its name, with '-' for '_', and its default.
	Flags func(*cobra.Command)
	// Check says what is wrong with a configuration, and fills in what rests on other keys. It changes nothing outside.
	Check func(*C) error
	// Serve is the daemon's work. It ends as it should when ctx does.
	Serve func(ctx context.Context, s Start[C]) error
}

// A Start is what a daemon has to start with.
type Start[C any] struct {
	Config C
	Again  func() (C, error) // reads the configuration again, and checks it
	Log    *slog.Logger
}

// The exit codes of a daemon.
const (
	exitEnded  = 0 // it ended as it was asked to
	exitFailed = 1
	exitUsage  = 2 // the command line or the configuration is wrong, nothing was done
)

// Main is a command's main function.
func Main[C any](d Daemon[C]) { os.Exit(d.Run(UntilSignal(), os.Args[1:], os.Stdout, os.Stderr)) }

// UntilSignal is a context that the first SIGINT or SIGTERM ends: it asks to write everything down and end. From then on signals act as
// usual: a second one kills.
func UntilSignal() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// Run runs the daemon until ctx ends, with args for the command line without the program's name, and returns its exit code.
func (d Daemon[C]) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var path string
	var check bool
	variables := strings.ToUpper(strings.ReplaceAll(d.Name, "-", "_"))
	cmd := &cobra.Command{
		Use:   d.Name,
		Short: d.Short,
		Long: d.Long + fmt.Sprintf(`

The configuration is a YAML file, in which each key is named as its flag with '_' for '-'. Flags count more than environment variables
(%s_%s for --%s), and these more than the file. Exit code 2: something is wrong with it, or with the command line.`,
			variables, strings.ToUpper(Keys[C]()[0]), flagOf(Keys[C]()[0])),
		Example: d.Example,
		Args: func(_ *cobra.Command, args []string) error { // cobra.NoArgs would call it an unknown command
			if len(args) > 0 {
				return fmt.Errorf("unexpected argument %q", args[0])
			}
			return nil
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.Flags().StringVar(&path, "config", "", "read this YAML `file`")
	cmd.Flags().BoolVar(&check, "check", false, "say whether the configuration can be used, and end")
	d.Flags(cmd)
	code := exitUsage
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		read := func() (C, error) { return d.read(path, variables, cmd) }
		c, err := read()
		if err != nil {
			return err
		}
		code = exitFailed
		if check {
			_, err := fmt.Fprintln(stdout, "the configuration can be used")
			return err
		}
		return d.Serve(cmd.Context(), Start[C]{c, read, slog.New(slog.NewTextHandler(stderr, nil))})
	}
	command.AnswerVersion(cmd, Version(d.Name))
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return exitEnded
	}
	fmt.Fprintf(stderr, "%s: %v\n", d.Name, err)
	if code == exitUsage {
		fmt.Fprintf(stderr, "see \"%s --help\"\n", d.Name)
	}
	return code
}

const maxConfigBytes = 1 << 20

// read reads the file, if there is one, and puts the environment and the flags over it.
func (d Daemon[C]) read(path, variables string, cmd *cobra.Command) (c C, err error) {
	v := viper.New()
	v.SetEnvPrefix(variables)
	for _, key := range Keys[C]() {
		if err := errors.Join(v.BindPFlag(key, cmd.Flags().Lookup(flagOf(key))), v.BindEnv(key)); err != nil {
			return c, err
		}
	}
	if path != "" {
		text, err := plainfile.Read(path, maxConfigBytes)
		if err != nil {
			return c, fmt.Errorf("read configuration: %w", err)
		}
		v.SetConfigType("yaml")
		if err := v.ReadConfig(bytes.NewReader(text)); err != nil {
			return c, fmt.Errorf("read configuration %q: %w", path, err)
		}
	}
	if err := v.UnmarshalExact(&c); err != nil {
		return c, fmt.Errorf("read configuration %q: %w", path, err)
	}
	return c, d.Check(&c)
}

// Keys are those of a configuration, as its file has them.
func Keys[C any]() (all []string) {
	t := reflect.TypeFor[C]()
	for i := range t.NumField() {
		all = append(all, t.Field(i).Tag.Get("mapstructure"))
	}
	return all
}

func flagOf(key string) string { return strings.ReplaceAll(key, "_", "-") }
