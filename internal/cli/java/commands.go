package java

import "github.com/spf13/cobra"

// Commands returns the commands of this package, which cprof adds to its own.
func Commands() []*cobra.Command { return []*cobra.Command{newJava()} }

func newJava() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "java",
		Short: "Ask what the Java agent does in a program",
		Long: `Ask what the Java agent does in a program.

The agent is one jar, cloudprofiler.jar. It writes log calls into the classes of Storm, Flink and
Kafka when a JVM loads them.`,
		Example: "  cprof java check 4711\n  cprof java check /opt/flink/lib",
	}
	cmd.AddCommand(newCheck())
	return cmd
}
