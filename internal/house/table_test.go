package house

// A room is one package and what it may import. A room imports only rooms on lower floors.
type room struct {
	floor   int
	imports []string // packages of this module that it may import
	modules []string // third-party modules that it may import
}

const (
	sys        = "golang.org/x/sys"
	zmq4       = "github.com/pebbe/zmq4"
	zstd       = "github.com/klauspost/compress"
	yaml       = "go.yaml.in/yaml/v3"
	viper      = "github.com/spf13/viper"
	cobra      = "github.com/spf13/cobra"
	pflag      = "github.com/spf13/pflag"
	prometheus = "github.com/prometheus/client_golang"
	parquet    = "github.com/parquet-go/parquet-go"
	hdr        = "github.com/HdrHistogram/hdrhistogram-go"
	protobuf   = "google.golang.org/protobuf"
	nats       = "github.com/nats-io/nats-server/v2"
	natsClient = "github.com/nats-io/nats.go"
	goleak     = "go.uber.org/goleak"
	ebpf       = "github.com/cilium/ebpf"
	cel        = "github.com/google/cel-go"
	crypto     = "golang.org/x/crypto"
)

// table contains every package: its floor, and what it may import. If a package is not in the
// table, the test fails. Programs embed asm, channel, ring and handlers, so the only third-party
// module of these packages is x/sys. tscratio and vnode use no third-party module.
var table = map[string]room{
	"asm":      {0, nil, of(sys)},
	"channel":  {0, nil, of(sys)},
	"tscratio": {0, nil, nil},
	"ntp":      {0, nil, nil},
	"overlay":  {0, nil, nil},
	"blackbox": {0, nil, nil},

	"replay/clock":   {0, nil, nil},
	"blackbox/calls": {0, nil, nil},
	"sim":            {0, nil, nil},
	"placement":      {0, nil, nil},

	"coordinator/faults": {0, nil, nil},
	"internal/plainfile": {0, nil, of(sys)},
	"internal/journal":   {0, nil, nil},
	"internal/similar":   {0, nil, nil},

	"placement/job": {1, of("placement", "internal/plainfile", "internal/similar"), of(yaml)},
	"sim/config":    {1, of("internal/similar"), nil},

	"ring":         {1, of("asm", "channel", "internal/plainfile"), of(sys)},
	"logstore":     {1, of("channel", "internal/plainfile"), of(sys, zstd)},
	"handlertable": {1, of("channel", "internal/plainfile", "internal/similar"), of(sys, yaml)},
	"host":         {1, of("asm"), of(sys)},
	"vnode":        {1, of("asm", "internal/similar"), nil},
	"minrtt":       {1, of("asm", "tscratio"), of(sys)},
	"control":      {1, of("tscratio", "internal/plainfile"), of(sys, zmq4)},
	"overlay/wire": {1, of("overlay"), nil},

	"sim/library": {2, of("sim", "sim/config", "internal/similar"), nil},
	"sim/cluster": {3, of("sim", "sim/config", "sim/library"), of(nats, natsClient)},
	"sim/agents":  {3, of("sim", "sim/library", "overlay", "overlay/wire", "tscratio"), nil},

	"sim/server": {4, of("sim", "sim/library", "sim/agents", "control", "coordinator"), nil},

	"minrtt/zmqtransport": {2, of("minrtt"), of(sys, zmq4)},
	"handlers":            {2, of("asm", "ring", "channel"), of(sys)},
	"drain":               {2, of("ring", "logstore", "channel", "handlertable"), of(sys)},
	"runs": {2, of("logstore", "tscratio", "internal/journal", "internal/plainfile"),
		of(sys, yaml)},
	"sharedclock": {2, of("asm", "minrtt"), of(sys)},
	"tscclient": {2, of("asm", "channel", "minrtt", "tscratio", "control", "host", "overlay",
		"overlay/wire"), of(sys)},

	"blackbox/capture": {3, of("asm", "handlers", "blackbox", "internal/plainfile"),
		of(sys, ebpf)},

	"blackbox/messages": {3, of("blackbox", "channel", "logstore", "tscratio", "runs"), nil},

	"returntrip": {3, of("asm", "handlers"), of(sys)},
	"coordinator": {3, of("minrtt", "tscratio", "control", "handlertable", "runs", "host",
		"overlay", "overlay/wire", "internal/journal", "internal/plainfile",
		"coordinator/faults"),
		of(sys, prometheus)},
	"replay": {3, of("blackbox", "channel", "logstore", "tscratio", "runs", "replay/clock",
		"internal/plainfile"), nil},
	"analysis": {3, of("blackbox", "channel", "logstore", "tscratio", "runs", "ntp"), of(sys, hdr)},
	"agent": {3, of("asm", "blackbox", "channel", "ring", "logstore", "drain", "tscclient",
		"control", "handlertable", "ntp", "runs", "host",
		"internal/plainfile"), of(sys, prometheus)},
	"generator": {3, of("asm", "handlers"), of(sys, zmq4, hdr, protobuf)},

	"blackbox/link": {1, of("blackbox/calls"), nil},
	"blackbox/paths": {4, of("blackbox", "blackbox/calls", "blackbox/link", "blackbox/messages",
		"analysis", "logstore", "tscratio", "runs"), nil},
	"replay/question/wire": {0, nil, nil},
	"replay/question":      {4, of("replay", "replay/question/wire"), of(cel)},
	"replay/page":          {4, of("replay"), nil},

	"watch": {4, of("channel", "control", "coordinator", "tscratio"), of(sys)},
	"report": {5, of("analysis", "blackbox/link", "blackbox/messages", "blackbox/paths", "tscratio",
		"runs"), of(sys)},
	"report/export": {5, of("analysis", "blackbox/messages", "blackbox/paths", "tscratio", "runs"),
		of(sys, parquet)},
	"explore": {4, of("analysis", "tscratio", "runs"), of(sys)},

	// The top floor contains commands, packages that only commands use, and example programs for
	// users to copy. A name that ends in "/..." covers every package below the folder. Commands may
	// import all packages. Examples may import only what users can import.
	"cmd/...":       {5, of("..."), of(sys, cobra, prometheus)},
	"bench/...":     {5, of("..."), of(sys, cobra, zstd, hdr, crypto)},
	"internal/leak": {5, nil, of(goleak)},
	"internal/command": {5, of("tscratio", "runs", "channel", "ring", "internal/similar"),
		of(sys, cobra, pflag)},
	"packaging": {5, of("internal/similar"), of(yaml)},
	"internal/cli": {5, of("...", "!bench/...", "!examples/...", "!internal/proof",
		"!replay/question", "!sim/cluster"), of(cobra)},
	"internal/cli/...": {5, of("...", "!internal/cli/...", "!bench/...", "!examples/...",
		"!internal/proof", "!replay/question", "!sim/cluster"), of(sys, cobra)},
	"internal/...":      {5, of("..."), of(sys, viper, cobra, yaml, hdr, zstd)},
	"examples/demo":     {5, of("..."), of(sys, cobra, yaml)},
	"examples/engine":   {5, of("..."), nil},
	"examples/blackbox": {5, of("..."), of(sys)},
	"examples/...":      {5, of("...", "!internal/..."), of(sys, yaml, nats, natsClient)},
}

func of(names ...string) []string { return names }
