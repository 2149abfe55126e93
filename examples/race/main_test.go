package main

import (
	"net"
	"testing"
)

// One teller alone loses nothing.
func TestDeposit(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- new(account).serve(l) }()
	balance, err := deposit(l.Addr().String(), 2, 3, t.TempDir())
	if want := uint64(2000 + 2001 + 2002); err != nil || balance != want {
		t.Errorf("balance %d, %v, want %d", balance, err, want)
	}
	l.Close()
	<-served
}
