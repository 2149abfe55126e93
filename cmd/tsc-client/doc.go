// Command tsc-client does a node's part in measuring, as a separate process. It answers probes. On
// orders of a tsc-server or of "cprof relate", it runs trains with other nodes. Package tscclient
// does the work. This command adds the configuration and the signals. A node that runs cp-agent
// needs no tsc-client, because the agent does the same.
package main
