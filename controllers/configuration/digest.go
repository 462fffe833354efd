package configuration

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// KeySize is the number of bytes of a key.
const KeySize = 32

// Key is the key of the hub for digests. Without it, nobody can test guesses of the content of a
// Secret against a name or a digest. It is never printed.
type Key struct{ bytes [KeySize]byte }

// NewKey returns the key with these bytes.
func NewKey(data []byte) (Key, error) {
	if len(data) != KeySize {
		return Key{}, fmt.Errorf("the key has %d bytes instead of %d", len(data), KeySize)
	}
	return Key{[KeySize]byte(data)}, nil
}

// String hides the key.
func (Key) String() string { return "(hidden key)" }

// GoString hides the key.
func (k Key) GoString() string { return k.String() }

// Identity identifies what a snapshot belongs to: a source of an AppService.
type Identity struct {
	Namespace, AppService string
	Ref
}

// Content is the content of a ConfigMap or a Secret.
type Content struct {
	// Type is the type of a Secret, and empty for a ConfigMap.
	Type corev1.SecretType
	// Data and BinaryData are as in the object.
	Data, BinaryData map[string][]byte
}

// OfConfigMap returns the content of a ConfigMap. It shares memory with it.
func OfConfigMap(object *corev1.ConfigMap) Content {
	content := Content{Data: make(map[string][]byte, len(object.Data)), BinaryData: object.BinaryData}
	for key, value := range object.Data {
		content.Data[key] = []byte(value)
	}
	return content
}

// OfSecret returns the content of a Secret. It shares memory with it.
func OfSecret(object *corev1.Secret) Content {
	content := Content{Type: object.Type, Data: object.Data}
	if content.Type == "" {
		content.Type = corev1.SecretTypeOpaque // the default of the API server
	}
	return content
}

// Size returns the number of bytes of the values, as the API server counts them for its limit.
func (c Content) Size() int64 {
	var size int64
	for _, values := range []map[string][]byte{c.Data, c.BinaryData} {
		for _, value := range values {
			size += int64(len(value))
		}
	}
	return size
}

// Equal reports whether two contents are equal, byte by byte.
func (c Content) Equal(other Content) bool {
	equal := func(a, b []byte) bool { return string(a) == string(b) }
	return c.Type == other.Type && maps.EqualFunc(c.Data, other.Data, equal) && maps.EqualFunc(c.BinaryData, other.BinaryData, equal)
}

// String describes the content without its values.
func (c Content) String() string {
	return fmt.Sprintf("(content with %d keys)", len(c.Data)+len(c.BinaryData))
}

// GoString describes the content without its values.
func (c Content) GoString() string { return c.String() }

// Digest identifies a content of a source. The zero value stands for a content that was not read.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a content. Contents of other sources have other digests, even if
// they are equal. The encoding must never change: otherwise an upgrade would replace the pods of all
// AppServices.
// docs/decisions/names-of-content-have-a-keyed-digest.md says why.
func DigestOf(key Key, id Identity, content Content) Digest {
	mac := hmac.New(sha256.New, key.bytes[:])
	writeIdentity(mac, id)
	writeText(mac, string(content.Type))
	for _, values := range []map[string][]byte{content.Data, content.BinaryData} {
		writeLength(mac, len(values))
		for _, name := range slices.Sorted(maps.Keys(values)) {
			writeText(mac, name)
			writeBytes(mac, values[name])
		}
	}
	return Digest(mac.Sum(nil))
}

// String returns the digest as it is written to an annotation.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest returns the digest in an annotation, or the zero value if it has none.
func ParseDigest(text string) Digest {
	data, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(data) != sha256.Size {
		return Digest{}
	}
	return Digest(data)
}

// digestOfIdentity returns a digest for a name that does not depend on content. Without content,
// there is nothing to guess, so it needs no key. A lost key does not change such names.
func digestOfIdentity(id Identity, purpose string) Digest {
	sum := sha256.New()
	writeIdentity(sum, id)
	writeText(sum, purpose)
	return Digest(sum.Sum(nil))
}

func writeIdentity(to hash.Hash, id Identity) {
	for _, text := range []string{id.Namespace, id.AppService, string(id.Kind), id.From} {
		writeText(to, text)
	}
}

// writeBytes writes bytes with their length before them, so that no two lists are written as the same
// bytes.
func writeBytes(to hash.Hash, data []byte) {
	writeLength(to, len(data))
	to.Write(data) // a hash returns no error
}

func writeText(to hash.Hash, text string) { writeBytes(to, []byte(text)) }

func writeLength(to hash.Hash, length int) {
	to.Write(binary.BigEndian.AppendUint64(nil, uint64(length)))
}

// Ref names a source: an object of the hub in the namespace of the AppService.
type Ref struct {
	Kind v1alpha1.ConfigurationKind
	From string
}

// describe returns the kind and the name. It is not String, which types that embed a Ref would have.
func (r Ref) describe() string { return string(r.Kind) + " " + r.From }

// compare orders references by kind and then by name.
func (r Ref) compare(other Ref) int {
	return strings.Compare(r.describe(), other.describe())
}
