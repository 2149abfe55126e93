package netns

import (
	"net"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
)

// arrivalCheck returns a function that sends packets from an end and reports whether one arrives at
// end 2.
func arrivalCheck(t *testing.T, s *Star) (arrives func(from int, limit time.Duration) bool) {
	t.Helper()
	var listener net.PacketConn
	if err := s.Do(2, func() (err error) {
		listener, err = net.ListenPacket("udp", net.JoinHostPort(s.Addr(2).String(), "4000"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return func(from int, limit time.Duration) bool {
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
}

// The ends of a mesh reach each other without the bridge, and reach the hub over the bridge.
func TestPrivilegedMesh(t *testing.T) {
	privileged.Need(t)
	s, err := NewMesh(4)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	arrives := arrivalCheck(t, s)
	for _, from := range []int{Hub, 0, 1, 3} {
		if !arrives(from, 5*time.Second) {
			t.Errorf("nothing comes from %d", from)
		}
	}
	if err := s.Cut(2, true); err != nil {
		t.Fatal(err)
	}
	for _, from := range []int{0, 1, 3} {
		if !arrives(from, 5*time.Second) {
			t.Errorf("without the bridge nothing comes from %d", from)
		}
	}
	if arrives(Hub, 100*time.Millisecond) {
		t.Error("the hub reaches an end that is cut off from it")
	}
}

func TestPrivilegedStar(t *testing.T) {
	privileged.Need(t)
	s, err := NewStar(3)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	arrives := arrivalCheck(t, s)
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
	for end := time.Now().Add(3 * time.Minute); !arrives(0, time.Second); {
		if time.Now().After(end) {
			t.Fatal("an end that got its link back reaches nobody")
		}
	}
}
