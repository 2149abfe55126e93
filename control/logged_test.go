package control

import (
	"bytes"
	"strings"
	"sync"
)

// serverLog collects what a server has logged.
type serverLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *serverLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *serverLog) has(text string) bool {
	return strings.Contains(l.String(), text)
}
