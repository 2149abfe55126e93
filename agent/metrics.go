package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics collects the agent's figures for Prometheus. All figures in an answer come from the same
// Status.
type metrics struct{ a *Agent }

// A metric is one figure. Dashboards depend on the names, so existing names never change.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(s *Status) float64
}

func newMetric(name, help string, kind prometheus.ValueType, of func(*Status) float64) metric {
	return metric{prometheus.NewDesc("cloudprofiler_agent_"+name, help, nil, nil), kind, of}
}

func yes(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

var nodeMetrics = []metric{
	newMetric("events_total", "Events that programs logged, as seen by this agent.",
		prometheus.CounterValue, func(s *Status) float64 { return float64(s.Total.Events) }),
	newMetric("dropped_total", "Events that programs dropped because their rings were full.",
		prometheus.CounterValue, func(s *Status) float64 { return float64(s.Total.Dropped) }),
	newMetric("not_stored_total",
		"Records that were taken and not stored because a limit was reached.",
		prometheus.CounterValue, func(s *Status) float64 { return float64(s.Total.NotStored) }),
	newMetric("over_rate_total", "Records that were taken and not stored because they were above "+
		"the handler table's rate.",
		prometheus.CounterValue, func(s *Status) float64 { return float64(s.Total.OverRate) }),
	newMetric("missing_total", "Records that were taken from rings and are in no log.",
		prometheus.CounterValue, func(s *Status) float64 { return float64(s.Total.Missing) }),
	newMetric("unread_total", "Records in rings that were set aside.",
		prometheus.CounterValue, func(s *Status) float64 { return float64(s.Total.Unread) }),
	newMetric("rows_total", "Rows written to logs.",
		prometheus.CounterValue, func(s *Status) float64 { return float64(s.Total.Rows) }),
	newMetric("log_bytes_total", "Bytes written to logs.",
		prometheus.CounterValue, func(s *Status) float64 { return float64(s.Total.LogBytes) }),
	newMetric("log_failures_total", "Attempts to write a log that failed.",
		prometheus.CounterValue, func(s *Status) float64 { return float64(s.Total.Failures) }),
	newMetric("removed_files_total",
		"Log files that somebody removed while the agent wrote them.",
		prometheus.CounterValue, func(s *Status) float64 { return float64(s.Total.Removed) }),
	newMetric("finished_rings_total", "Rings that were drained to their end.",
		prometheus.CounterValue, func(s *Status) float64 { return float64(s.Finished) }),
	newMetric("rings", "Rings that the agent drains or has set aside.",
		prometheus.GaugeValue, func(s *Status) float64 { return float64(len(s.Channels)) }),
	newMetric("ring_bytes", "Bytes of shared memory in rings.",
		prometheus.GaugeValue, func(s *Status) (sum float64) {
			for _, p := range s.Processes {
				sum += float64(p.RingBytes)
			}
			return sum
		}),
	newMetric("processes", "Processes that have rings.",
		prometheus.GaugeValue, func(s *Status) float64 { return float64(len(s.Processes)) }),
	newMetric("limit_reached", "1 while records are not stored because a limit is reached.",
		prometheus.GaugeValue, func(s *Status) float64 { return yes(s.Limit != "") }),
	newMetric("left_rings",
		"Rings that are not drained until others are gone, because there are too many.",
		prometheus.GaugeValue, func(s *Status) float64 { return float64(s.Left) }),
	newMetric("set_aside_rings", "Rings that cannot be trusted and are no longer drained.",
		prometheus.GaugeValue, func(s *Status) float64 { return float64(s.SetAside) }),
	newMetric("directory_lost",
		"1 while another agent has the directory of rings, and nothing is drained.",
		prometheus.GaugeValue, func(s *Status) float64 { return yes(s.Lost != "") }),
	newMetric("run_open", "1 while a run is open.",
		prometheus.GaugeValue, func(s *Status) float64 { return yes(s.Run != "") }),
	newMetric("server_connected",
		"1 while the server is connected; 0 while it is not, or if there is none.",
		prometheus.GaugeValue, func(s *Status) float64 { return yes(s.Link.Connected) }),
	newMetric("handler_table_generation",
		"The server's generation of the handler table that applies; 0: another table applies.",
		prometheus.GaugeValue, func(s *Status) float64 { return float64(s.Table.Generation) }),
	newMetric("handler_table_stale",
		"1 if the newest handler table cannot be used, or if the server cannot be reached.",
		prometheus.GaugeValue, func(s *Status) float64 {
			return yes(s.Table.Error != "" || s.Table.Source == "last of the server" ||
				s.Link.Server != "" && !s.Link.Connected)
		}),
	newMetric("chrony_bound_seconds", "How far the system clock may be from UTC, as chrony "+
		"claims; absent if chrony claims nothing.",
		prometheus.GaugeValue, func(s *Status) float64 { return float64(s.Chrony.Bound_ns) / 1e9 }),
}

var (
	channelEvents = prometheus.NewDesc("cloudprofiler_agent_channel_events",
		"Events of a channel, in the rings that exist now.", []string{"channel"}, nil)
	channelDropped = prometheus.NewDesc("cloudprofiler_agent_channel_dropped",
		"Events of a channel that were dropped, in the rings that exist now.",
		[]string{"channel"}, nil)
	channelWaiting = prometheus.NewDesc("cloudprofiler_agent_channel_waiting",
		"Records that wait in the rings of a channel.", []string{"channel"}, nil)
)

// maxChannelSeries is the largest number of channels that have time series of their own. All
// further channels share one time series. This limits the cost of a request.
const maxChannelSeries = 1000

const otherChannels = "(others)"

func (m metrics) Describe(to chan<- *prometheus.Desc) {
	for _, one := range nodeMetrics {
		to <- one.desc
	}
	to <- channelEvents
	to <- channelDropped
	to <- channelWaiting
}

func (m metrics) Collect(to chan<- prometheus.Metric) {
	s := m.a.Status()
	for _, one := range nodeMetrics {
		if one.desc == chronyBound && !s.Chrony.Bounded {
			continue
		}
		to <- prometheus.MustNewConstMetric(one.desc, one.kind, one.of(&s))
	}
	type sums struct{ events, dropped, waiting uint64 }
	channels := map[string]sums{}
	for _, c := range s.Channels {
		name := c.Channel
		if _, known := channels[name]; !known && len(channels) >= maxChannelSeries {
			name = otherChannels
		}
		sum := channels[name]
		channels[name] = sums{
			sum.events + c.Events, sum.dropped + c.Dropped, sum.waiting + c.Waiting,
		}
	}
	for name, sum := range channels {
		to <- prometheus.MustNewConstMetric(channelEvents, prometheus.GaugeValue,
			float64(sum.events), name)
		to <- prometheus.MustNewConstMetric(channelDropped, prometheus.GaugeValue,
			float64(sum.dropped), name)
		to <- prometheus.MustNewConstMetric(channelWaiting, prometheus.GaugeValue,
			float64(sum.waiting), name)
	}
}

// chronyBound describes chrony's bound, the only one of nodeMetrics that an answer may lack.
var chronyBound = nodeMetrics[len(nodeMetrics)-1].desc

func (a *Agent) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	start := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "cloudprofiler_agent_start_time_seconds",
		Help: "When the agent began, in seconds since 1970 UTC.",
	})
	start.Set(float64(a.started.UnixNano()) / float64(time.Second))
	r.MustRegister(
		metrics{a}, start, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector())
	return r
}
