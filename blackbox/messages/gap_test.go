package messages

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// A datagram may lack its sending call if records were lost while it may have been on its way. If
// nobody knows when records were lost, every datagram may lack it.
func TestGaps(t *testing.T) {
	const at = 1 << 40
	for name, c := range map[string]struct {
		lose func(*Log)
		want bool
	}{
		"nothing": {func(*Log) {}, false},
		"before": {func(l *Log) {
			l.add(blackbox.Loss{First_cycles: at - 9, Last_cycles: at - 8, Messages: 1})
		}, true},
		"long before": {func(l *Log) {
			l.add(blackbox.Loss{First_cycles: 1, Last_cycles: at / 2, Messages: 1})
		}, false},
		"a wake-up": {func(l *Log) {
			l.add(blackbox.Loss{Reason: blackbox.WakeUp, First_cycles: at - 9, Last_cycles: at - 8})
		}, false},
		"afterwards": {func(l *Log) { l.addGap(at+100, at+200) }, false},
		"two, and one of them before": {func(l *Log) {
			l.addGap(at+100, at+200)
			l.addGap(at-200, at-100)
		}, true},
		"the end is not known": {func(l *Log) { l.addGap(5, 0) }, true},
		"a bad record":         {func(l *Log) { l.Bad = 1 }, true},
		"a part is missing":    {func(l *Log) { l.Missing = "a part" }, true},
	} {
		l := newLog("n")
		c.lose(l)
		d := datagram{&socket{log: l}, &end{began: at, ended: at + 1, by: &Thread{}}}
		if got := findGaps([]*Log{l}).mayLackSender(d, sameNode); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
