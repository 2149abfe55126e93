package paths

import "github.com/cloudprofiler/cloudprofiler/blackbox/link"

// pairResponses gives requests their responses, on connections on which several requests are open
// at the same time. There, a response is a call of its own, and its cause is the request. For each
// call, pairResponses returns the number of the response, or -1.
func (s *Seen) pairResponses(links []link.Link) []int32 {
	answer := make([]int32, len(s.Calls))
	for i := range answer {
		answer[i] = -1
	}
	for i := range s.Calls {
		c, r := &s.Calls[i], links[i].Cause
		if !c.Answers || r < 0 || s.Calls[r].Connection != c.Connection || s.Calls[r].Answers {
			continue
		}
		if before := answer[r]; before >= 0 && links[before].Probability >= links[i].Probability {
			continue
		}
		answer[r] = int32(i)
		s.moments[r].replied, s.moments[r].got = s.moments[i].sent, s.moments[i].received
		s.Calls[r].Replied_ns, s.Calls[r].Got_ns = c.Sent_ns, c.Received_ns
	}
	return answer
}
