package copies

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetwright/fleetwright/controllers/numbering"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

const (
	// maxRecorded is the maximum number of copies in a record. It is more than an AppService has at a
	// time, also with those of a few revisions that were not completed.
	maxRecorded = 256
	// ownerKind begins the item that names the Deployment of a record.
	ownerKind = "Deployment/"
	// thisDeployment takes the place of the UID in a cache.
	thisDeployment = "this"
)

// Key identifies a copy on a member.
type Key struct {
	Kind workload.Kind
	Name string
}

// KeyOf returns the key of a copy.
func KeyOf(c workload.Copy) Key { return Key{c.Kind, c.Name} }

// Recorded is a copy in a record.
type Recorded struct {
	Key
	// Serial is the serial of the content of a copy that is updated in place; otherwise 0. It may be an
	// outlier.
	Serial int64
}

// Record has the copies that a Deployment lists, the oldest first.
type Record []Recorded

// ParseRecord returns the record in an annotation. A member may have changed it: items that are
// malformed are left out.
func ParseRecord(text string) Record {
	var record Record
	for item := range strings.SplitSeq(text, ",") {
		if found, ok := parseItem(item); ok && record.index(found.Key) < 0 {
			record = append(record, found)
		}
		if len(record) == maxRecorded {
			break
		}
	}
	return record
}

func parseItem(item string) (Recorded, bool) {
	kind, name, _ := strings.Cut(item, "/")
	name, serialText, isInPlace := strings.Cut(name, "@")
	recorded := Recorded{Key: Key{workload.Kind(kind), name}}
	if isInPlace {
		if recorded.Serial = numbering.Parse(serialText); recorded.Serial == 0 {
			return Recorded{}, false
		}
	}
	isKind := recorded.Kind == workload.ConfigMap || recorded.Kind == workload.Secret
	return recorded, isKind && len(validation.IsDNS1123Subdomain(name)) == 0
}

// String returns the record as it is written to the annotation before its copies are applied.
func (r Record) String() string {
	items := make([]string, 0, len(r))
	for _, recorded := range r {
		item := string(recorded.Kind) + "/" + recorded.Name
		if recorded.Serial > 0 {
			item += "@" + strconv.FormatInt(recorded.Serial, 10)
		}
		items = append(items, item)
	}
	return strings.Join(items, ",")
}

// ConfirmedFor returns the record as it is written after its copies were applied: with the UID of the
// Deployment that owns them. A new Deployment is written before them, and its record has no UID yet.
func (r Record) ConfirmedFor(deployment types.UID) string {
	if len(r) == 0 {
		return ""
	}
	return r.String() + "," + ownerKind + string(deployment)
}

// ConfirmedOwner returns the UID of the Deployment whose copies were applied before the record in an
// annotation was written, or "" if it was written before them. The UID is that of the Deployment with the
// annotation.
func ConfirmedOwner(text string, uid types.UID) types.UID {
	for item := range strings.SplitSeq(text, ",") {
		if owner, isOwner := strings.CutPrefix(item, ownerKind); isOwner && owner == thisDeployment {
			return uid
		} else if isOwner {
			return types.UID(owner)
		}
	}
	return ""
}

// WithoutUID returns a record without the UID of the Deployment that has it. So the records of a cache are
// equal on all members, which can share them. [ConfirmedOwner] knows both forms.
func WithoutUID(text string, uid types.UID) string {
	if rest, isConfirmed := strings.CutSuffix(text, ","+ownerKind+string(uid)); isConfirmed {
		return rest + "," + ownerKind + thisDeployment
	}
	return text
}

// Serial returns the serial of a copy, and whether the record has the copy.
func (r Record) Serial(of Key) (int64, bool) {
	i := r.index(of)
	if i < 0 {
		return 0, false
	}
	return r[i].Serial, true
}

// With returns the record with a copy that was applied. It does not change the record.
func (r Record) With(applied Recorded) Record {
	next := slices.Clone(r)
	if i := next.index(applied.Key); i >= 0 {
		next[i] = applied
		return next
	}
	return append(next, applied)
}

// Without returns the record without the copies that are reported. It does not change the record.
func (r Record) Without(isGone func(Key) bool) Record {
	return slices.DeleteFunc(slices.Clone(r), func(recorded Recorded) bool { return isGone(recorded.Key) })
}

// Bounded returns the record without the oldest copies that are over the limit and not needed. They
// stay on the member until the Deployment is deleted.
func (r Record) Bounded(isNeeded func(Key) bool) Record {
	surplus := len(r) - maxRecorded
	return r.Without(func(key Key) bool {
		if surplus <= 0 || isNeeded(key) {
			return false
		}
		surplus--
		return true
	})
}

func (r Record) index(of Key) int {
	return slices.IndexFunc(r, func(recorded Recorded) bool { return recorded.Key == of })
}
