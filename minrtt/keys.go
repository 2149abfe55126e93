package minrtt

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// keyBytes is the length of a secret and of a key derived from it.
const keyBytes = sha256.Size

// A Secret is the basis of the keys of an answerer's probers. Each prober has its own key. Whoever
// knows the secret can derive all of these keys. So only the answerer, and the server that
// distributes the keys, know the secret. The zero Secret means that there is none.
type Secret struct {
	Number uint64 // identifies the secret in packets; never 0
	Bytes  [keyBytes]byte
}

// NewSecret creates a random secret.
func NewSecret() Secret {
	var s Secret
	_, _ = rand.Read(s.Bytes[:]) // Read never fails
	s.Number = newNumber()
	return s
}

// newNumber returns a random number other than 0.
func newNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // Read never fails
	return max(1, binary.BigEndian.Uint64(b[:]))
}

// A Key authenticates the trains of one prober with one answerer. If two probers share a key, each
// ends the other's trains. Use the zero Key with an answerer that requires no key. With the zero
// Key, damaged packets are noticed, but everybody can send packets.
type Key struct {
	Secret uint64 // number of the secret from which the key is derived
	Prober uint64 // number that identifies the prober
	Bytes  [keyBytes]byte
}

// Key derives the key of a prober from the secret.
func (s *Secret) Key(prober uint64) Key {
	message := [len(keyLabel) + 8]byte{}
	copy(message[:], keyLabel)
	binary.BigEndian.PutUint64(message[len(keyLabel):], prober)
	return Key{Secret: s.Number, Prober: prober, Bytes: hmacOnce(&s.Bytes, message[:])}
}

// keyLabel makes sure that no other use of a secret gives the same bytes as a key.
const keyLabel = "MRTT key"

// hmacOnce returns the HMAC-SHA256 of a message. For a message of more than longestSize bytes the
// result is wrong. Unlike crypto/hmac, hmacOnce allocates nothing. It is for keys that are used
// once, such as the key of a forged packet.
func hmacOnce(key *[keyBytes]byte, message []byte) [sha256.Size]byte {
	var inner [sha256.BlockSize + longestSize]byte
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

// keyTextBytes is the length of an encoded key.
const keyTextBytes = 8 + 8 + keyBytes

// Encode returns the key in the form in which it is distributed: its two numbers, big-endian, then
// its bytes. For the zero Key it returns nil.
func (k Key) Encode() []byte {
	if k == (Key{}) {
		return nil
	}
	b := make([]byte, 0, keyTextBytes)
	b = binary.BigEndian.AppendUint64(b, k.Secret)
	b = binary.BigEndian.AppendUint64(b, k.Prober)
	return append(b, k.Bytes[:]...)
}

// DecodeKey decodes what Encode returned.
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

// codecUnder returns a codec that writes and reads packets under this key.
func (k *Key) codecUnder() *codec {
	if *k == (Key{}) {
		return newCodec(nil)
	}
	return newCodec(k.Bytes[:])
}
