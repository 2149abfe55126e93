package host

import (
	"os"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

// SystemOptions examines the machine that this runs on.
func SystemOptions() Options {
	return Options{
		Root: os.DirFS("/"), Features: asm.Read(), Clocks: SystemClocks(), Wait: time.Sleep,
		OnCore: OnCore, Listen: ListenRestores,
	}
}
