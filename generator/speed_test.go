package generator

import (
	"testing"
	"time"
)

func BenchmarkPush(b *testing.B) {
	for _, c := range []struct {
		name           string
		message, batch int
	}{{"single", 1, 64}, {"single1", 1, 1}, {"batch64", 64, 64}, {"batch256", 256, 256}} {
		b.Run(c.name, func(b *testing.B) {
			sender, received := connectPair(
				b, 1, PushOptions{Batch: c.message},
				SenderOptions{FlatOut: time.Minute, Limit: uint64(b.N), Batch: c.batch},
				ReceiverOptions{},
			)
			b.ResetTimer()
			if _, err := sender.Run(b.Context()); err != nil {
				b.Fatal(err)
			}
			r := received()
			if !r.Whole() {
				b.Error(r.Check)
			}
			b.ReportMetric(r.Rate/1e6, "MT/s")
		})
	}
}
