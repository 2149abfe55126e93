package host

import (
	"os"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

// SystemOptions returns the options for examining this machine.
func SystemOptions() Options {
	return Options{
		Root: os.DirFS("/"), Features: asm.Read(), Clocks: SystemClocks(), Wait: time.Sleep,
		OnCore: OnCore, Listen: ListenRestores,
	}
}
