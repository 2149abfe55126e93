package job

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// The event types of the benchmark. Only views are counted.
var eventTypes = []string{"view", "click", "purchase"}

var adTypes = []string{"banner", "modal", "sponsored-search", "mail", "mobile"}

// event is one of the benchmark's advertising events.
type event struct {
	user, page, ad string
	adType         string
	eventType      string
	time_us        int64
	address        string
}

// randomFor makes the random numbers of one event. They depend only on the seed and the event's
// index in the stream, so sources can share a stream without communicating.
func (s *Stream) randomFor(index int) *rand.Rand {
	return rand.New(rand.NewPCG(s.Seed, uint64(index)))
}

// makeEvent makes the event at an index in the stream.
func (s *Stream) makeEvent(index int, begin_us int64) event {
	r := s.randomFor(index)
	return event{
		user:      "user-" + strconv.FormatUint(r.Uint64N(100_000), 10),
		page:      "page-" + strconv.FormatUint(r.Uint64N(100), 10),
		ad:        adName(r.IntN(s.Campaigns * s.AdsPerCampaign)),
		adType:    adTypes[r.IntN(len(adTypes))],
		eventType: eventTypes[r.IntN(len(eventTypes))],
		time_us:   begin_us + s.dueAfter(index).Microseconds(),
		address:   "10.1.2." + strconv.Itoa(r.IntN(256)),
	}
}

// begin_us returns the event time of the first tuple of a stream that begins now.
func (s *Stream) begin_us(now time.Time) int64 {
	if s.Begin_us != 0 {
		return s.Begin_us
	}
	return now.UnixMicro()
}

// dueAfter returns the time from the first tuple to the tuple at an index in the stream.
func (s *Stream) dueAfter(index int) time.Duration {
	perSecond := s.PerSecond
	if perSecond == 0 {
		perSecond = 10_000 // event times need some rate
	}
	seconds := float64(index) / perSecond
	return time.Duration(seconds * float64(time.Second))
}

func adName(ad int) string             { return "ad-" + strconv.Itoa(ad) }
func campaignName(campaign int) string { return "campaign-" + strconv.Itoa(campaign) }

// campaignOf returns the campaign of an ad. The operator join calls this function only to fill the
// key-value store. After that, join asks the store.
func (s *Stream) campaignOf(ad int) string { return campaignName(ad / s.AdsPerCampaign) }

// windowOf returns the beginning of the window that contains an event time.
func (s *Stream) windowOf(time_us int64) int64 { return time_us - time_us%s.Window.Microseconds() }

// json writes the event in the form in which the benchmark's producer writes events.
func (e *event) json(b []byte) []byte {
	field := func(name, value string) {
		b = append(append(append(append(b, '"'), name...), `":"`...), value...)
		b = append(b, `",`...)
	}
	b = append(b, '{')
	field("user_id", e.user)
	field("page_id", e.page)
	field("ad_id", e.ad)
	field("ad_type", e.adType)
	field("event_type", e.eventType)
	field("event_time", strconv.FormatInt(e.time_us, 10))
	field("ip_address", e.address)
	b[len(b)-1] = '}'
	return b
}

// Window names a campaign's window.
type Window struct {
	Campaign string
	Begin_us int64
}

// Expect computes, in a loop, the counts that the job must find.
func (s *Stream) Expect(begin_us int64) map[Window]int {
	counts := map[Window]int{}
	for i := range s.Tuples {
		e := s.makeEvent(i, begin_us)
		if e.eventType != eventTypes[0] {
			continue
		}
		ad, _ := strconv.Atoi(e.ad[len("ad-"):])
		counts[Window{s.campaignOf(ad), s.windowOf(e.time_us)}]++
	}
	return counts
}
