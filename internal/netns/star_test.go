package netns

import (
	"net"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
)

func TestPrivilegedStar(t *testing.T) {
	privileged.Need(t)
	s, err := NewStar(3)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var listener net.PacketConn
	if err := s.Do(2, func() (err error) {
		listener, err = net.ListenPacket("udp", net.JoinHostPort(s.Addr(2).String(), "4000"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	arrives := func(from int, limit time.Duration) bool {
		t.Helper()
		if err := s.Do(from, func() error {
			c, err := net.Dial("udp", listener.LocalAddr().String())
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write([]byte("x"))
			return err
		}); err != nil {
			return false
		}
		listener.SetReadDeadline(time.Now().Add(limit))
		_, _, err := listener.ReadFrom(make([]byte, 10))
		return err == nil
	}
	for _, from := range []int{Hub, 0, 1} {
		if !arrives(from, 5*time.Second) {
			t.Errorf("nothing comes from %d", from)
		}
	}
	if err := s.Cut(0, true); err != nil {
		t.Fatal(err)
	}
	if arrives(0, 100*time.Millisecond) {
		t.Error("an end that is cut off reaches others")
	}
	if !arrives(1, 5*time.Second) {
		t.Error("an end beside it does not")
	}
	if err := s.Cut(0, false); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); !arrives(0, time.Second); {
		if time.Now().After(end) {
			t.Fatal("an end that got its link back reaches nobody")
		}
	}
}
