package status

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// The sizes of texts and entries are computed without encoding them.
func TestSizes_are_upper_bounds(t *testing.T) {
	for _, text := range []string{"", "x", "<>&", "\"\\", "ü", "\n\u2028", "\U0001F600", "\xff"} {
		content, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := encodedSize(text), len(content)-2; got < want {
			t.Errorf("%q: %d bytes, and JSON has %d", text, got, want)
		}
	}
	full := v1alpha1.ClusterStatus{
		Name: strings.Repeat("n", 253), Generation: math.MaxInt64, Replicas: math.MaxInt32, MinReplicas: math.MaxInt32, MaxReplicas: math.MaxInt32,
		Weight: math.MaxInt64, Surging: true, Phase: v1alpha1.ClusterProgressing, LastTransitionTime: metav1.Now(), LastKnownPhase: v1alpha1.ClusterProgressing,
		Transition:         v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalNeedsApproval, Cause: v1alpha1.CauseDisplaced, Accepted: true},
		ObservedGeneration: math.MaxInt64, ReadyReplicas: math.MaxInt32, UnreadyReplicas: math.MaxInt32, Reason: v1alpha1.ReasonRemovalNeedsApproval,
		HubBehind: &v1alpha1.HubBehind{Kind: "HorizontalPodAutoscaler", Generation: math.MaxInt64, UID: "12345678-1234-1234-1234-123456789012", Accept: strings.Repeat("a", 100)},
	}
	const rest = 100 << 10                                  // the spec, the conditions, and 35 bytes of managed fields for each entry
	if size := 1300 * fixedSize(&full); size > 3<<19-rest { // the largest --slice-threshold, in the 1.5 MiB of etcd
		t.Errorf("1300 of the largest entries without texts have %d bytes", size)
	}
	plain := v1alpha1.ClusterStatus{
		Name: "n", Generation: math.MaxInt64, Replicas: math.MaxInt32, Phase: v1alpha1.ClusterProgressing, LastTransitionTime: metav1.Now(),
		ObservedGeneration: math.MaxInt64, ReadyReplicas: math.MaxInt32, UnreadyReplicas: math.MaxInt32, Reason: "R", Message: "m", Addresses: []string{"a"},
	}
	for _, entry := range []v1alpha1.ClusterStatus{full, plain} {
		content, err := json.Marshal(entry)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fixedSize(&entry)+len(entry.Message)+3*len(entry.Addresses), len(content); got < want {
			t.Errorf("%d bytes, and JSON has %d: %s", got, want, content)
		}
	}
}
