package minrtt

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// keyBytes is the length of a secret and of what is made from it.
const keyBytes = sha256.Size

// A Secret is what an answerer's keys are made from, one for each prober. Whoever knows it can make
// all of them: it belongs to the answerer and to whoever hands out its keys. The zero Secret is
// none.
type Secret struct {
	Number uint64 // names it on the wire; never 0
	Bytes  [keyBytes]byte
}

// NewSecret draws a secret.
func NewSecret() Secret {
	var s Secret
	_, _ = rand.Read(s.Bytes[:]) // never fails
	s.Number = newNumber()
	return s
}

// newNumber draws a number other than 0.
func newNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return max(1, binary.BigEndian.Uint64(b[:]))
}

// A Key is what one prober authenticates its trains with one answerer by. Two that share one end
// each other's trains. With the zero Key, trains are run with an answerer that asks for none:
// packets that were damaged are found, and nobody is kept out.
type Key struct {
	Secret uint64 // the number of the secret that it is made from
	Prober uint64 // whose it is, by whatever number the one who made it gave it
	Bytes  [keyBytes]byte
}

// Key makes the key of a prober.
func (s *Secret) Key(prober uint64) Key {
	message := [len(keyLabel) + 8]byte{}
	copy(message[:], keyLabel)
	binary.BigEndian.PutUint64(message[len(keyLabel):], prober)
	return Key{Secret: s.Number, Prober: prober, Bytes: hmacOnce(&s.Bytes, message[:])}
}

// keyLabel keeps what is made here apart from whatever else a secret may be used for.
const keyLabel = "MRTT key"

// hmacOnce returns the HMAC-SHA256 of a message no longer than a packet. Unlike crypto/hmac it
// allocates nothing for a key that is used once, as that of a forged packet is.
func hmacOnce(key *[keyBytes]byte, message []byte) [sha256.Size]byte {
	var inner [sha256.BlockSize + longSize]byte
	var outer [sha256.BlockSize + sha256.Size]byte
	for i := range sha256.BlockSize {
		inner[i], outer[i] = 0x36, 0x5c
	}
	for i, k := range key {
		inner[i] ^= k
		outer[i] ^= k
	}
	n := copy(inner[sha256.BlockSize:], message)
	sum := sha256.Sum256(inner[:sha256.BlockSize+n])
	copy(outer[sha256.BlockSize:], sum[:])
	return sha256.Sum256(outer[:])
}

// keyTextBytes is how long a key is that is handed on.
const keyTextBytes = 8 + 8 + keyBytes

// Encode returns the key as it is handed on: its two numbers, big-endian, and its bytes. The zero
// Key is nothing.
func (k Key) Encode() []byte {
	if k == (Key{}) {
		return nil
	}
	b := make([]byte, 0, keyTextBytes)
	b = binary.BigEndian.AppendUint64(b, k.Secret)
	b = binary.BigEndian.AppendUint64(b, k.Prober)
	return append(b, k.Bytes[:]...)
}

// DecodeKey reads what Encode returned.
func DecodeKey(b []byte) (Key, error) {
	if len(b) == 0 {
		return Key{}, nil
	}
	if len(b) != keyTextBytes {
		return Key{}, fmt.Errorf("probe key has %d bytes, not %d: bring both ends to one version",
			len(b), keyTextBytes)
	}
	k := Key{Secret: binary.BigEndian.Uint64(b), Prober: binary.BigEndian.Uint64(b[8:])}
	copy(k.Bytes[:], b[16:])
	return k, nil
}

// codec returns what writes and reads packets under the key.
func (k *Key) codec() *codec {
	if *k == (Key{}) {
		return newCodec(nil)
	}
	return newCodec(k.Bytes[:])
}
