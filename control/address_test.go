package control

import (
	"errors"
	"strings"
	"testing"
)

// The error about an incomplete address names the missing part. The system would only say "invalid
// argument".
func TestAddressNeedsHostAndPort(t *testing.T) {
	t.Parallel()
	key := must(NewKey("a", RoleServer))(t)
	for address, want := range map[string]string{
		"10.77.0.1":  "write 10.77.0.1:7330",
		"10.77.0.1:": "write 10.77.0.1:7330",
		"nonsense":   "write nonsense:7330",
		":7330":      "write 127.0.0.1:7330",
		"fe80::1":    "in brackets",
		"[fe80::1]":  "write [fe80::1]:7330",
		"":           "port is missing",
	} {
		_, err := Dial(ClientConfig{Server: address, Key: &key})
		if !errors.Is(err, ErrAddress) || !strings.Contains(err.Error(), want) {
			t.Errorf("connect to %q: %v", address, err)
		}
		_, err = Listen(ServerConfig{Address: address, Key: &key})
		if !errors.Is(err, ErrAddress) || !strings.Contains(err.Error(), want) {
			t.Errorf("listen on %q: %v", address, err)
		}
	}
}
