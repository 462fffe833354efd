package status

import (
	"strconv"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

const (
	// maxMessages is the maximum number of entries of one object with the same reason that have a
	// message. The others have only the reason.
	maxMessages = 50
	// objectBudget is the maximum size of the entries of one AppService, in bytes of JSON. The
	// hub's etcd refuses an object over 1.5 MiB, and the API server adds managed fields. If etcd
	// refused a status, everything would stop for its AppService: nothing would be planned or
	// delivered.
	objectBudget = 1_000_000
	// sliceBudget is the maximum size of the entries of one AppServiceSlice, in bytes of JSON. It
	// is lower, because each change of an entry writes and sends its slice.
	sliceBudget = 300_000
)

// textLimit limits the texts of each entry.
type textLimit struct {
	message   int // characters of the message
	addresses int
}

// textLimits are the steps in which the texts are shortened: the first one that fits is used. They
// are few, so a change of one entry rarely changes the texts of the others.
var textLimits = []textLimit{
	{wording.MaxMessage, 8},
	{512, 8},
	{256, 4},
	{128, 2},
	{64, 1},
	{64, 0},
	{0, 0},
}

// limitTextsOfSlices shortens the texts in each AppServiceSlice. A change of one entry then never
// changes the texts in another slice.
func limitTextsOfSlices(all []v1alpha1.ClusterStatus) {
	var parts [v1alpha1.SliceCount][]*v1alpha1.ClusterStatus
	for i := range all {
		slot := v1alpha1.SlotOf(all[i].Name)
		parts[slot] = append(parts[slot], &all[i])
	}
	for _, part := range parts {
		limitTexts(part, sliceBudget)
	}
}

func pointersTo(all []v1alpha1.ClusterStatus) []*v1alpha1.ClusterStatus {
	pointers := make([]*v1alpha1.ClusterStatus, len(all))
	for i := range all {
		pointers[i] = &all[i]
	}
	return pointers
}

// limitTexts shortens the messages and the addresses of the entries of one object, so that these
// entries take at most the budget. Everything else of an entry is never shortened. A text that was
// shortened comes back when the budget allows it and the cluster is observed again.
//
// After a restart, the entries have shortened texts until their clusters are observed. These count as
// the longest texts that they may stand for. So the step stays, and a restart writes nothing.
// docs/decisions/messages-of-a-status-have-a-budget.md says why.
func limitTexts(entries []*v1alpha1.ClusterStatus, budget int) {
	dropMessages(entries)
	left := budget
	for _, entry := range entries {
		left -= fixedSize(entry)
	}
	for _, limit := range textLimits {
		if textSize(entries, limit, left) <= left || limit.message == 0 {
			limit.apply(entries)
			return
		}
	}
}

// fixedSize returns at least the size of an entry without its texts, in bytes of JSON. It is an
// upper bound, because encoding all entries takes too long.
func fixedSize(entry *v1alpha1.ClusterStatus) int {
	size := 115 + len(entry.Name) + len(entry.Phase) // with the names of the required fields and the time
	for _, number := range []int64{entry.Generation, int64(entry.Replicas)} {
		size += digits(number)
	}
	// Each optional field that is set, with at least the length of its name.
	size += numberSize("observedGeneration", entry.ObservedGeneration) + numberSize("revision", entry.Revision) +
		numberSize("placement", entry.Placement) + numberSize("weight", entry.Weight) +
		numberSize("readyReplicas", int64(entry.ReadyReplicas)) + numberSize("unreadyReplicas", int64(entry.UnreadyReplicas)) +
		numberSize("minReplicas", int64(entry.MinReplicas)) + numberSize("maxReplicas", int64(entry.MaxReplicas)) +
		numberSize("availableReplicas", int64(entry.AvailableReplicas)) + numberSize("stageRevision", entry.StageRevision)
	if entry.ObservedAvailableReplicas != nil {
		size += len(`"observedAvailableReplicas":,`) + digits(int64(*entry.ObservedAvailableReplicas))
	}
	for _, text := range []string{entry.Reason, string(entry.LastKnownPhase), entry.Recreate, entry.Stage} {
		if text != "" {
			size += len(`"lastKnownPhase":"",`) + len(text)
		}
	}
	for _, flag := range []bool{entry.Surging, entry.Impaired, entry.Returned} {
		if flag {
			size += len(`"impaired":true,`)
		}
	}
	for _, t := range []*metav1.Time{entry.UnavailableSince, entry.ReadySince} {
		if t != nil {
			size += len(`"unavailableSince":"2026-01-02T15:04:05Z",`)
		}
	}
	if entry.Transition.Type != "" {
		size += 65 + len(entry.Transition.Type) + len(entry.Transition.Cause)
	}
	if behind := entry.HubBehind; behind != nil {
		size += 100 + len(behind.Kind) + len(behind.UID) + len(behind.Accept) +
			numberSize("revision", behind.Revision) + numberSize("placement", behind.Placement)
		if behind.CreationTime != nil {
			size += len(`"creationTime":"2026-01-02T15:04:05Z",`)
		}
	}
	return size
}

// numberSize returns the size of an optional number with its name.
func numberSize(name string, number int64) int {
	if number == 0 {
		return 0
	}
	return len(name) + len(`"":,`) + digits(number)
}

func digits(number int64) int { return len(strconv.FormatInt(number, 10)) }

// dropMessages drops the messages after the first maxMessages entries with the same reason, in
// order of name. So a change of one entry changes the message of at most one other.
func dropMessages(entries []*v1alpha1.ClusterStatus) {
	count := map[string]int{}
	for _, entry := range entries {
		if entry.Message == "" {
			continue
		}
		if count[entry.Reason] == maxMessages {
			entry.Message = ""
			continue
		}
		count[entry.Reason]++
	}
}

// textSize returns the size of all texts in bytes of JSON, with this limit for each entry. It may
// stop when the size exceeds most.
func textSize(entries []*v1alpha1.ClusterStatus, limit textLimit, most int) int {
	size := 0
	for _, entry := range entries {
		size += encodedSize(shorten(entry.Message, limit.message)) + hiddenSize(entry, limit)
		for _, address := range entry.Addresses[:min(len(entry.Addresses), limit.addresses)] {
			size += encodedSize(address) + len(`"",`)
		}
		if size > most {
			break
		}
	}
	return size
}

const (
	maxCharacter = len(`\u0000`)                                     // bytes of JSON
	maxAddress   = validation.DNS1123SubdomainMaxLength + len(`"",`) // bytes of JSON
)

// hiddenSize returns how many bytes of JSON may be missing from the texts of an entry, of those that
// the limit allows: texts as long as a step allows may have been shortened by it. Lists of one
// address are usual, and do not count.
func hiddenSize(entry *v1alpha1.ClusterStatus, limit textLimit) int {
	size := 0
	for _, step := range textLimits {
		if step.message > 0 && step.message < limit.message && utf8.RuneCountInString(entry.Message) == step.message {
			size += (limit.message - step.message) * maxCharacter
			break
		}
	}
	for _, step := range textLimits {
		if step.addresses > 1 && step.addresses < limit.addresses && len(entry.Addresses) == step.addresses {
			size += (limit.addresses - step.addresses) * maxAddress
			break
		}
	}
	return size
}

// apply shortens the texts of the entries. It does not modify lists of addresses, because the
// previous status shares them.
func (l textLimit) apply(entries []*v1alpha1.ClusterStatus) {
	for _, entry := range entries {
		entry.Message = shorten(entry.Message, l.message)
		if len(entry.Addresses) > l.addresses {
			entry.Addresses = entry.Addresses[:l.addresses:l.addresses]
		}
	}
}

// shorten returns at most this many characters of a text.
func shorten(text string, characters int) string {
	switch {
	case len(text) <= characters || utf8.RuneCountInString(text) <= characters:
		return text
	case characters == 0:
		return ""
	}
	return string([]rune(text)[:characters-1]) + "…"
}

// encodedSize returns the size of a text in etcd in bytes. JSON encodes some characters in six
// bytes.
func encodedSize(text string) int {
	size := 0
	for _, character := range text {
		switch {
		case character < ' ', character == '<', character == '>', character == '&', character == '\u2028', character == '\u2029', character == utf8.RuneError:
			size += maxCharacter
		case character == '"', character == '\\':
			size += 2
		default:
			size += utf8.RuneLen(character)
		}
	}
	return size
}
