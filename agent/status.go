package agent

import (
	"fmt"
	"os"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/drain"
)

// Status describes an agent. Scripts read its JSON, so existing fields never change.
type Status struct {
	Node      string       `json:"node"`
	ProcessID int          `json:"process_id"`
	Started   time.Time    `json:"started"`
	Rings     string       `json:"rings_directory"`
	Logs      string       `json:"logs_directory"`
	Run       string       `json:"run,omitempty"` // the open run
	Table     TableStatus  `json:"handler_table"`
	Link      LinkStatus   `json:"server"`
	Chrony    ChronyStatus `json:"chrony"`
	Limit     string       `json:"limit,omitempty"` // why the agent does not store records now
	// Lost says why this agent no longer has the directory of rings.
	Lost     string `json:"lost,omitempty"`
	Total    Counts `json:"total"`          // sums since this agent started
	Finished uint64 `json:"finished_rings"` // rings of ended programs, wholly in logs
	// SetAside is the number of rings that are set aside and no longer drained. Channels has the
	// first thousand of them.
	SetAside  int            `json:"set_aside_rings"`
	Left      int            `json:"left_rings"` // rings not drained: there are too many
	LeftWhy   string         `json:"left_why,omitempty"`
	Channels  []RingStatus   `json:"channels"`
	Processes []ProcessUsage `json:"processes"`
	Capture   CaptureStatus  `json:"capture"`
	Warnings  []string       `json:"warnings,omitempty"` // what a person should look at
}

// Counts counts the events of rings and what happened to them. In JSON the numbers are decimal
// strings, because they have 64 bits.
type Counts struct {
	Events    uint64 `json:"events,string"`     // events that programs logged
	Dropped   uint64 `json:"dropped,string"`    // events dropped because rings were full
	NotStored uint64 `json:"not_stored,string"` // rows taken while a limit was reached
	OverRate  uint64 `json:"over_rate,string"`  // rows above the handler table's rate
	Missing   uint64 `json:"missing,string"`    // rows taken from rings, but in no log
	Unread    uint64 `json:"unread,string"`     // rows in rings that were set aside
	Holes     uint64 `json:"holes,string"`      // rows that dead programs reserved but never wrote
	Rows      uint64 `json:"rows,string"`       // rows that the agent wrote to logs
	LogBytes  uint64 `json:"log_bytes,string"`
	Failures  uint64 `json:"failures,string"` // failures to write logs
	// Removed is the number of log files that somebody removed while the agent wrote them.
	Removed uint64 `json:"removed_files,string"`
}

// RingStatus is one channel of one program.
type RingStatus struct {
	Channel     string `json:"channel"`
	Incarnation string `json:"incarnation"`
	ProcessID   int    `json:"process_id"`
	Place       string `json:"place,omitempty"` // where the process runs: pod, container or unit
	Handler     string `json:"handler"`
	Policy      string `json:"policy"`
	Alive       bool   `json:"alive"`               // the program is known to have it open
	SetAside    bool   `json:"set_aside,omitempty"` // the ring is neither trusted nor drained
	Waiting     uint64 `json:"waiting,string"`      // records in the ring
	RingBytes   int64  `json:"ring_bytes"`
	Counts
	Trouble string `json:"trouble,omitempty"`
}

// ProcessUsage is the number and size of the rings of a process.
type ProcessUsage struct {
	// Two entries are sums over several processes. The entry with ProcessID 0 is for all processes
	// with rings that falsely name another process. The entry with ProcessID -1 is for all
	// processes that had already ended when the drainer looked for them.
	ProcessID int   `json:"process_id"`
	Rings     int   `json:"rings"`
	RingBytes int64 `json:"ring_bytes"`

	PIDNamespace uint64 `json:"pid_namespace,omitempty"` // namespace of ProcessID
}

// Status returns the present status.
func (a *Agent) Status() Status {
	stats := a.drainer.Stats()
	a.mu.Lock()
	s := Status{
		Node: a.c.Node, ProcessID: os.Getpid(), Started: a.started, Rings: a.c.Rings,
		Run: a.state.Run, Table: a.table, Link: a.linkStatus(),
	}
	a.mu.Unlock()
	s.Logs, s.Finished, s.Chrony = a.drainer.Logs(), stats.Finished, a.chrony.Status()
	t := stats.Total
	s.Total = Counts{
		t.Events, t.Dropped, t.NotStored, t.OverRate, t.Missing, t.Unread, t.Holes, t.Rows,
		t.LogBytes, t.Failures, uint64(t.Removed),
	}
	if stats.Table != nil {
		s.Table.Error = stats.Table.Error()
	}
	if stats.Limit != nil {
		s.Limit = stats.Limit.Error()
	}
	s.SetAside, s.Left = stats.SetAside, stats.Left
	if stats.LeftWhy != nil {
		s.LeftWhy = stats.LeftWhy.Error()
	}
	if stats.Lost != nil {
		s.Lost = stats.Lost.Error()
	}
	s.Channels, s.Processes = []RingStatus{}, []ProcessUsage{}
	for _, r := range stats.Rings {
		s.Channels = append(s.Channels, ringStatus(r))
	}
	for _, p := range stats.Processes {
		s.Processes = append(s.Processes, ProcessUsage{
			p.ProcessID, p.Rings, p.RingBytes, p.PIDNamespace,
		})
	}
	s.Capture = a.CaptureStatus()
	s.Warnings = s.warnings()
	return s
}

func ringStatus(r drain.RingStats) RingStatus {
	one := RingStatus{
		Channel: r.Channel.String(), Incarnation: fmt.Sprintf("%x", r.Incarnation),
		ProcessID: r.ProcessID, Place: r.Place,
		Handler: r.Settings.String(), Policy: r.Policy.String(),
		Alive: r.Alive && r.SetAside == nil, SetAside: r.SetAside != nil, Waiting: r.Waiting,
		RingBytes: r.RingBytes,
		Counts: Counts{
			r.Events, r.Dropped, r.NotStored, r.OverRate, r.Missing, r.Unread, r.Holes, r.Rows,
			r.LogBytes, r.Failures, uint64(r.Removed),
		},
	}
	if r.Channel == (channel.Name{}) {
		one.Channel = r.Path // the ring could not be opened, so the channel's name is unknown
	}
	switch {
	case r.SetAside != nil:
		one.Trouble = "set aside: " + r.SetAside.Error()
	case r.Failure != nil:
		one.Trouble = r.Failure.Error()
	case r.Refused != nil:
		one.Trouble = r.Refused.Error()
	case r.Misused:
		one.Trouble = "the program logs events on a link channel, or links on another, or gives " +
			"bad stamps or stamps for a shared channel: such calls keep nothing"
	case r.Rejected:
		one.Trouble = "the program was given settings that it could not take, and is on null"
	}
	return one
}

// warnings returns what a person should look at. The worst warning is first.
func (s *Status) warnings() (all []string) {
	if s.Lost != "" {
		all = append(all, "nothing is drained: "+s.Lost)
	}
	if s.Limit != "" {
		all = append(all, "records are not stored: "+s.Limit)
	}
	if s.Left > 0 {
		all = append(all, fmt.Sprintf("rings that are not drained until others are gone: %d: %s",
			s.Left, s.LeftWhy))
	}
	if s.Table.Error != "" {
		all = append(all, "the handler table in force is an older one: "+s.Table.Error)
	}
	if s.Link.Server != "" && !s.Link.Connected {
		why := s.Link.Error
		if why == "" {
			why = "it has not answered yet"
		}
		all = append(all,
			"the server "+s.Link.Server+" is away, and the last handler table holds: "+why)
	}
	return append(all, s.troubles()...)
}

// maxTroubles is the largest number of channels whose troubles are listed. Further channels are
// only counted.
const maxTroubles = 100

// troubles returns what is wrong with channels. Each text is listed once.
func (s *Status) troubles() (all []string) {
	said := map[string]bool{}
	for _, c := range s.Channels {
		one := c.Channel + ": " + c.Trouble
		if c.Trouble == "" || said[one] {
			continue
		}
		said[one] = true
		if len(all) < maxTroubles {
			all = append(all, one)
		}
	}
	if more := len(said) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("%d more channels have such troubles", more))
	}
	if hidden := s.SetAside - s.described(); hidden > 0 {
		all = append(all, fmt.Sprintf("%d more rings are set aside", hidden))
	}
	return all
}

// described returns the number of set-aside rings that Channels lists.
func (s *Status) described() (n int) {
	for _, c := range s.Channels {
		if c.SetAside {
			n++
		}
	}
	return n
}
