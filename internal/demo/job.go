package demo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// The job: a source on node A sends tuples to a worker on node B, which does a little work and sends each back to a sink
// on A. On the TCP connection a tuple is its id and what the worker made of it, 8 bytes each.

// Channel names of the job.
const (
	sourceSend = "source#0/send"
	workerRecv = "worker#0/recv"
	workerSend = "worker#0/send"
	sinkRecv   = "sink#0/recv"
)

const tupleBytes = 16

func openAll(dir string, names ...string) (channels []*handlers.Channel, err error) {
	for _, name := range names {
		c, err := handlers.Open(name, handlers.Options{Dir: dir})
		if err != nil {
			return channels, err
		}
		channels = append(channels, c)
	}
	return channels, nil
}

func closeAll(channels []*handlers.Channel) error {
	var errs []error
	for _, c := range channels {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// work is the worker on node B.
func work(ctx context.Context, listener *net.TCPListener, dir string, count int) (err error) {
	channels, err := openAll(dir, workerRecv, workerSend)
	defer func() { err = errors.Join(err, closeAll(channels)) }()
	if err != nil {
		return err
	}
	recv, send := channels[0], channels[1]
	if deadline, ok := ctx.Deadline(); ok {
		listener.SetDeadline(deadline)
	}
	conn, err := listener.Accept()
	if err != nil {
		return fmt.Errorf("take tuples: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var tuple [tupleBytes]byte
	for range count {
		if _, err := io.ReadFull(conn, tuple[:]); err != nil {
			return fmt.Errorf("take tuples: %w", err)
		}
		id := binary.LittleEndian.Uint64(tuple[:])
		recv.Log(id)
		binary.LittleEndian.PutUint64(tuple[8:], crunch(id))
		send.Log(id)
		if _, err := conn.Write(tuple[:]); err != nil {
			return fmt.Errorf("send tuple %d back: %w", id, err)
		}
	}
	return nil
}

// crunch is the worker's work: some microseconds, more for every tenth tuple.
func crunch(id uint64) uint64 {
	rounds := 2000
	if id%10 == 0 {
		rounds = 20000
	}
	for range rounds {
		id = id*6364136223846793005 + 1442695040888963407
	}
	return id
}

// source is the source and the sink on node A.
func source(ctx context.Context, peer, dir string, count, perSecond int) (err error) {
	channels, err := openAll(dir, sourceSend, sinkRecv)
	defer func() { err = errors.Join(err, closeAll(channels)) }()
	if err != nil {
		return err
	}
	send, recv := channels[0], channels[1]
	ids, err := handlers.OpenIDs(dir, handlers.AnyInstance)
	if err != nil {
		return err
	}
	defer ids.Close()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", peer)
	if err != nil {
		return fmt.Errorf("reach the worker: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	sunk := make(chan error, 1)
	go func() {
		var tuple [tupleBytes]byte
		for range count {
			if _, err := io.ReadFull(conn, tuple[:]); err != nil {
				sunk <- fmt.Errorf("take tuples back: %w", err)
				return
			}
			recv.Log(binary.LittleEndian.Uint64(tuple[:]))
		}
		sunk <- nil
	}()
	start, gap := time.Now(), time.Second/time.Duration(perSecond)
	for i := range count {
		time.Sleep(time.Until(start.Add(time.Duration(i) * gap)))
		id, ok := ids.Next()
		if !ok {
			return fmt.Errorf("make tuple %d: no ids left", i)
		}
		var tuple [tupleBytes]byte
		binary.LittleEndian.PutUint64(tuple[:], id)
		send.Log(id)
		if _, err := conn.Write(tuple[:]); err != nil {
			return fmt.Errorf("send tuple %d: %w", id, err)
		}
	}
	return <-sunk
}
