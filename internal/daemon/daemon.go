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
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// A Daemon is a command that serves until a signal ends it. C is its configuration: a struct in
// which each field has a tag `mapstructure:"key"`.
type Daemon[C any] struct {
	Name  string
	Short string
	// Long is the command's help. Run adds the part that all daemons share: where the configuration
	// comes from, and the exit codes.
	Long    string
	Example string

	// Flags adds a flag for each key, with the key's default. The flag's name has '-' for each '_'.
	Flags func(*cobra.Command)
	// Check returns what is wrong with a configuration. It also sets values that depend on other
	// keys. It has no other effect.
	Check func(*C) error
	// Serve does the daemon's work. When ctx ends, Serve finishes its work and returns.
	Serve func(ctx context.Context, s Start[C]) error
}

// A Start is what Serve gets.
type Start[C any] struct {
	Config C
	Again  func() (C, error) // reads and checks the configuration again
	Log    *slog.Logger
}

// These are the exit codes of a daemon.
const (
	exitEnded  = 0 // a signal ended it
	exitFailed = 1
	exitUsage  = 2 // the command line or the configuration is wrong; nothing was done
)

// Main runs a daemon until a signal ends it, and then exits. It is a command's whole main function.
func Main[C any](d Daemon[C]) { os.Exit(d.Run(UntilSignal(), os.Args[1:], os.Stdout, os.Stderr)) }

// UntilSignal returns a context that ends with the first SIGINT or SIGTERM. The program should then
// write everything to disk and end. A second signal has its usual effect: it kills the program.
func UntilSignal() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// Run runs the daemon until ctx ends, and returns its exit code. The arguments are the command line
// without the program's name.
func (d Daemon[C]) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var path string
	var check bool
	variables := strings.ToUpper(strings.ReplaceAll(d.Name, "-", "_"))
	cmd := &cobra.Command{
		Use:   d.Name,
		Short: d.Short,
		Long: d.Long + fmt.Sprintf(`

The configuration is a YAML file. Each key has the name of its flag, with '_' for '-'. Flags
override environment variables (%s_%s for --%s), and these override the file.

Exit code 2: the configuration or the command line is wrong.`,
			variables, strings.ToUpper(Keys[C]()[0]), flagOf(Keys[C]()[0])),
		Example: d.Example,
		// cobra.NoArgs would call the argument an unknown command.
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unexpected argument %q", args[0])
			}
			return nil
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.Flags().StringVar(&path, "config", "", "read this YAML `file`")
	cmd.Flags().BoolVar(&check, "check", false, "check whether the configuration can be "+
		"used, and end")
	d.Flags(cmd)
	cmd.SetFlagErrorFunc(command.NearestFlag)
	// scripts/dist uses these two flags when it makes packages.
	schema := cmd.Flags().Bool("schema", false, "print a JSON Schema of the configuration")
	man := cmd.Flags().Bool("man", false, "print the manual page")
	if err := errors.Join(cmd.Flags().MarkHidden("schema"),
		cmd.Flags().MarkHidden("man")); err != nil {
		panic(err) // the flags are there
	}
	code := exitUsage
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *man {
			_, err := fmt.Fprint(stdout, command.Man(cmd, 8, number(buildInfo())))
			return err
		}
		if *schema {
			text, err := d.schema(cmd)
			if err == nil {
				_, err = fmt.Fprintf(stdout, "%s\n", text)
			}
			return err
		}
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

// read returns the configuration. Its values come from the file, if there is one. The environment
// overrides the file, and flags override both.
func (d Daemon[C]) read(path, variables string, cmd *cobra.Command) (c C, err error) {
	v := viper.New()
	v.SetEnvPrefix(variables)
	for _, key := range Keys[C]() {
		if err := errors.Join(v.BindPFlag(key, cmd.Flags().Lookup(flagOf(key))),
			v.BindEnv(key)); err != nil {
			return c, err
		}
	}
	if path != "" {
		text, err := plainfile.Read(path, maxConfigBytes)
		if err != nil {
			return c, fmt.Errorf("read configuration: %w", err)
		}
		if err := checkKeys(text, Keys[C]()); err != nil {
			return c, fmt.Errorf("read configuration %q: %w", path, err)
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
