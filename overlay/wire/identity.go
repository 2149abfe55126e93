package wire

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/overlay"
)

// An Identity is a process' key pair, and the name under which other nodes reach the process.
type Identity struct {
	Name    overlay.Name
	private *ecdh.PrivateKey
}

// A Card has the three parts of a name, which is written as "node address key".
type Card struct {
	Node    string
	Address netip.AddrPort
	key     *ecdh.PublicKey
}

// keyText is how keys are written in names.
var keyText = base64.RawURLEncoding

// NewIdentity returns an identity with a new key pair. Address is where others reach the node.
func NewIdentity(node string, address netip.AddrPort) (*Identity, error) {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("new identity of %q: %w", node, err)
	}
	return newIdentity(node, address, private)
}

func newIdentity(node string, address netip.AddrPort, private *ecdh.PrivateKey) (*Identity, error) {
	i := &Identity{private: private, Name: overlay.Name(strings.Join([]string{node,
		address.String(), keyText.EncodeToString(private.PublicKey().Bytes())}, " "))}
	if _, err := ParseName(i.Name); err != nil {
		return nil, fmt.Errorf("new identity: %w", err)
	}
	return i, nil
}

// ParseName returns what a name says. It does not check that the name is true.
func ParseName(name overlay.Name) (Card, error) {
	fail := func(what string) (Card, error) {
		return Card{}, fmt.Errorf("name %q of a node in the graph: %s", name, what)
	}
	if len(name) > overlay.MaxName {
		return fail(fmt.Sprintf("%d bytes, want at most %d", len(name), overlay.MaxName))
	}
	parts := strings.Split(string(name), " ")
	if len(parts) != 3 || parts[0] == "" {
		return fail("want a node, an address and a key")
	}
	address, err := netip.ParseAddrPort(parts[1])
	switch {
	case err != nil:
		return fail(err.Error())
	case address.Port() == 0 || address.Addr().IsUnspecified() || address.Addr().IsMulticast() ||
		address.String() != parts[1]:
		return fail("want the address and port of one node")
	}
	text, err := keyText.Strict().DecodeString(parts[2])
	if err != nil {
		return fail(err.Error())
	}
	key, err := ecdh.X25519().NewPublicKey(text)
	if err != nil {
		return fail(err.Error())
	}
	return Card{parts[0], address, key}, nil
}

// An Issuer signs names. Whoever has it can make anybody a member of the graph.
type Issuer struct{ private ed25519.PrivateKey }

const (
	// SeedBytes, PublicBytes and SignatureBytes are the lengths of an issuer's seed, of its public
	// key and of its signatures.
	SeedBytes      = ed25519.SeedSize
	PublicBytes    = ed25519.PublicKeySize
	SignatureBytes = ed25519.SignatureSize

	// signed is put before a name when the name is signed, so that the signature cannot be used for
	// anything else.
	signed = "CPOV name "
)

// NewSeed returns a random seed of an Issuer.
func NewSeed() []byte {
	seed := make([]byte, SeedBytes)
	_, _ = rand.Read(seed) // never fails
	return seed
}

// NewIssuer returns the issuer of a seed, which must have SeedBytes bytes.
func NewIssuer(seed []byte) (*Issuer, error) {
	if len(seed) != SeedBytes {
		return nil, fmt.Errorf("new issuer: seed of %d bytes, want %d", len(seed), SeedBytes)
	}
	return &Issuer{ed25519.NewKeyFromSeed(seed)}, nil
}

// Public returns the key by which nodes check the issuer's signatures.
func (i *Issuer) Public() []byte { return i.private.Public().(ed25519.PublicKey) }

// Sign returns the signature of a name.
func (i *Issuer) Sign(name overlay.Name) []byte {
	return ed25519.Sign(i.private, []byte(signed+string(name)))
}

// Check returns an error unless one of the issuers signed the name.
func Check(name overlay.Name, issuers [][]byte, signature []byte) error {
	for _, key := range issuers {
		if len(key) != PublicBytes {
			return fmt.Errorf("key of an issuer has %d bytes, want %d", len(key), PublicBytes)
		}
	}
	if !isSigned(name, issuers, signature) {
		return fmt.Errorf("name %q: %w", name, errSignature)
	}
	return nil
}

func isSigned(name overlay.Name, issuers [][]byte, signature []byte) bool {
	for _, key := range issuers {
		if ed25519.Verify(key, []byte(signed+string(name)), signature) {
			return true
		}
	}
	return false
}
