package host

// SavedVersion is the version of Saved in JSON.
const SavedVersion = 1

// Saved is the state of a Watch, which a later process can continue.
type Saved struct {
	Version int         `json:"version"` // 0 in files from before there was a version
	Epoch   Epoch       `json:"epoch"`
	Last    Observation `json:"last"`
	Mark    Observation `json:"mark"`
	Rate    *Frequency  `json:"rate,omitempty"`
}

// Save returns the state that a later process needs to continue.
func (w *Watch) Save() Saved { return Saved{SavedVersion, w.epoch, w.last, w.mark, w.rate} }
