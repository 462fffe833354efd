package configuration

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/rand"
)

const (
	// snapshotSuffix ends the names of snapshots. A hub may be its own member, so a snapshot and
	// its copy need different names.
	snapshotSuffix = ".snapshot"
	// absentSuffix ends the name that stands for an optional source that has never existed. No
	// object has this name.
	absentSuffix = ".absent"
	// digestCharacters is the number of characters of a digest in a name.
	digestCharacters = 10
	// maxName is the maximum length of the name of a ConfigMap or a Secret.
	maxName = 253
)

// Name returns the name of the snapshot with this digest.
func Name(id Identity, digest Digest) string { return stem(id, digest) + snapshotSuffix }

// IsSnapshot reports whether this may be a name of [Name].
func IsSnapshot(name string) bool { return strings.HasSuffix(name, snapshotSuffix) }

// AbsentName returns the name that a revision has in place of a snapshot while an optional source has
// never existed. The copy of this name does not exist on any member.
func AbsentName(id Identity) string { return stem(id, digestOfIdentity(id, "absent")) + absentSuffix }

// IsAbsent reports whether this is a name of [AbsentName].
func IsAbsent(snapshot string) bool { return strings.HasSuffix(snapshot, absentSuffix) }

// VersionedCopy returns the name of the copy of a snapshot on the members.
func VersionedCopy(snapshot string) string {
	return strings.TrimSuffix(strings.TrimSuffix(snapshot, snapshotSuffix), absentSuffix)
}

// InPlaceCopy returns the name of the copy that has each content of a source in turn.
func InPlaceCopy(id Identity) string { return stem(id, digestOfIdentity(id, "in place")) }

// stem returns APPSERVICE-SOURCE-DIGEST, with the first characters of the source if its name is long.
func stem(id Identity, digest Digest) string {
	source := id.From
	if longest := maxName - len(id.AppService) - digestCharacters - len("--") - len(snapshotSuffix); len(source) > longest {
		source = strings.TrimRight(source[:longest], "-.") // a label of a DNS name must not begin with '-'
	}
	return id.AppService + "-" + source + "-" + abbreviate(digest)
}

// abbreviate returns the first characters of a digest for a name.
func abbreviate(digest Digest) string {
	text := make([]byte, digestCharacters)
	for i := range text {
		text[i] = digest[i] & 0x7f // SafeEncodeString handles only ASCII
	}
	return rand.SafeEncodeString(string(text))
}
