package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/demo"
	"github.com/cloudprofiler/cloudprofiler/handlers"
)

func main() {
	at := flag.String("account", "", "keep the account at this address")
	teller := flag.Int("teller", 0, "number of this teller, from 1")
	deposits := flag.Int("deposits", 20, "how many deposits to make, at most 999")
	wait := flag.Bool("wait", false, "begin when the standard input ends")
	nodes := flag.String("nodes", "", "run three tellers on virtual nodes, and keep the run in "+
		"this new `directory`")
	flag.Parse()
	switch {
	case flag.Arg(0) == "process": // of -nodes
		if err := demo.Process(context.Background(), os.Stdin, os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	case *nodes != "":
		b, err := runOnNodes(context.Background(), *nodes, *deposits, false)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("the run is in %s; the account lacks %d\n", *nodes, b.lost)
		return
	case *at != "":
		l, err := net.Listen("tcp", *at)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(l.Addr())
		log.Fatal(new(account).serve(l))
	case *teller < 1 || flag.NArg() != 1:
		log.Fatal("give -account ADDRESS, or -teller NUMBER and the account's address")
	}
	if *wait {
		io.Copy(io.Discard, os.Stdin)
	}
	balance, err := deposit(flag.Arg(0), *teller, *deposits, "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the balance is %d\n", balance)
}

// account is a balance that others read and write.
type account struct {
	mu      sync.Mutex
	balance uint64
}

// serve answers the requests of tellers. A request has 9 bytes: the first byte is 0 to read or 1 to
// write, and the other bytes are the balance to write. The answer is the balance after the request.
func (a *account) serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			var request [9]byte
			for {
				if _, err := io.ReadFull(c, request[:]); err != nil {
					return
				}
				a.mu.Lock()
				if request[0] == 1 {
					a.balance = binary.LittleEndian.Uint64(request[1:])
				}
				answer := binary.LittleEndian.AppendUint64(nil, a.balance)
				a.mu.Unlock()
				if _, err := c.Write(answer); err != nil {
					return
				}
			}
		}()
	}
}

// deposit makes deposits and returns the balance after the last one. rings is the directory of the
// rings. If it is empty, deposit uses the node's directory.
func deposit(address string, teller, deposits int, rings string) (balance uint64, err error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	o := handlers.Options{Dir: rings}
	read, err := handlers.Open(fmt.Sprintf("teller#%d/read", teller), o)
	if err != nil {
		log.Print(err) // log calls now do nothing
	}
	defer read.Close()
	written, err := handlers.Open(fmt.Sprintf("teller#%d/write", teller), o)
	if err != nil {
		log.Print(err)
	}
	defer written.Close()
	for i := range deposits {
		amount := amountOf(teller, i)
		if balance, err = askBalance(c, 0, 0); err != nil {
			return balance, err
		}
		read.Log(amount)
		if balance, err = askBalance(c, 1, balance+amount); err != nil {
			return balance, err
		}
		written.Log(amount)
		time.Sleep(time.Duration(1+teller) * time.Millisecond)
	}
	return balance, nil
}

// amountOf returns the amount of a teller's deposit with the number i. No other deposit has this
// amount, so the amount serves as an id.
func amountOf(teller, i int) uint64 { return uint64(1000*teller + i) }

// askBalance sends a request and returns the balance.
func askBalance(c net.Conn, what byte, balance uint64) (uint64, error) {
	var answer [8]byte
	request := binary.LittleEndian.AppendUint64([]byte{what}, balance)
	if _, err := c.Write(request); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(c, answer[:])
	return binary.LittleEndian.Uint64(answer[:]), err
}
