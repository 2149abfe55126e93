package handlers

import "github.com/cloudprofiler/cloudprofiler/channel"

// null discards every event. A log call costs only one comparison.
var null = handler{
	prepare: func(channel.Settings, bool) adopted { return adopted{mode: modeNull} },
	log:     func(*Channel, *adopted, uint64) {},
}
