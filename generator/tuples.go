package generator

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
)

// Poison is the id that ends a stream. Package channel uses the same id.
const Poison uint64 = 1<<64 - 1

// MaxTuple is the longest serialised tuple, in bytes.
const MaxTuple = 128 << 10

// ErrTuple is wrapped by errors about tuples that cannot be sent.
var ErrTuple = errors.New("bad tuple")

// A Tuple is a serialised tuple and its id. A function that is given a Tuple may not keep Body.
type Tuple struct {
	ID   uint64
	Body []byte
}

// Tuples contains the serialised tuples of a run. All are in memory before the run begins, so that
// the sender does nothing but send. The sender repeats the tuples again and again, with new ids
// each time. One goroutine may load. After loading, any number of goroutines may read.
type Tuples struct {
	bytes []byte
	ends  []int
}

// LoadBytes adds a copy of a serialised tuple.
func (t *Tuples) LoadBytes(body []byte) error {
	if len(body) == 0 || len(body) > MaxTuple {
		return fmt.Errorf("load tuple %d: %w: %d bytes, want 1 to %d",
			len(t.ends), ErrTuple, len(body), MaxTuple)
	}
	t.bytes = append(t.bytes, body...)
	t.ends = append(t.ends, len(t.bytes))
	return nil
}

// GetBytes appends tuple number i, with an id, to b in the format of a message (FORMAT.md), and
// returns the extended slice.
func (t *Tuples) GetBytes(b []byte, i int, id uint64) []byte {
	return appendTuple(b, Tuple{id, t.body(i)})
}

// Len returns how many tuples are loaded.
func (t *Tuples) Len() int { return len(t.ends) }

func (t *Tuples) body(i int) []byte {
	start := 0
	if i > 0 {
		start = t.ends[i-1]
	}
	return t.bytes[start:t.ends[i]:t.ends[i]]
}

// LoadLines loads a tuple, such as JSON, from each line. It skips empty lines.
func (t *Tuples) LoadLines(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxTuple+1)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := t.LoadBytes(lines.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("load tuples: after tuple %d: %w", t.Len(), err)
	}
	return nil
}

// LoadDelimited loads tuples from a stream in which a varint with its length precedes each tuple.
// This is the usual form of protobuf messages in a file.
func (t *Tuples) LoadDelimited(r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		size, err := binary.ReadUvarint(in)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("load tuple %d: its length: %w", t.Len(), err)
		}
		if size == 0 || size > MaxTuple {
			return fmt.Errorf("load tuple %d: %w: %d bytes, want 1 to %d",
				t.Len(), ErrTuple, size, MaxTuple)
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(in, body); err != nil {
			return fmt.Errorf("load tuple %d: its %d bytes: %w", t.Len(), size, err)
		}
		if err := t.LoadBytes(body); err != nil {
			return err
		}
	}
}

// Advertisements returns n JSON tuples of size bytes each, the events of an advertising stream.
// They are for users who have no tuples of their own. With a size of 265, a body and its prefix of
// 12 bytes have 277 bytes, which is the size of a tuple in streaming benchmarks.
func Advertisements(n, size int, seed uint64) (*Tuples, error) {
	random := rand.New(rand.NewPCG(seed, 0))
	id := func() string {
		return fmt.Sprintf("%08x-%04x-%04x-%012x",
			random.Uint32(), random.Uint32()>>16, random.Uint32()>>16, random.Uint64()>>16)
	}
	kinds := []string{"view", "click", "purchase"}
	t := &Tuples{}
	for range n {
		text := fmt.Appendf(nil, `{"user_id":"%s","page_id":"%s","ad_id":"%s",`+
			`"ad_type":"banner","event_type":"%s","ip":"10.%d.%d.%d","pad":"`,
			id(), id(), id(),
			kinds[random.IntN(3)], random.IntN(256), random.IntN(256), random.IntN(256))
		if len(text)+2 > size {
			return nil, fmt.Errorf("make tuples: %w: %d bytes are too few, want %d or more",
				ErrTuple, size, len(text)+2)
		}
		for len(text)+2 < size {
			text = append(text, 'a'+byte(random.IntN(26)))
		}
		if err := t.LoadBytes(append(text, `"}`...)); err != nil {
			return nil, err
		}
	}
	return t, nil
}
