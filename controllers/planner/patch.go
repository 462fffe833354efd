package planner

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// statusPatch returns a merge patch that changes the status of an AppService, if it still has this
// resource version. It returns nil if both statuses are stored alike.
//
// A merge patch replaces a list as a whole. So the entries are encoded once, and only the rest of
// the status is compared field by field. client.MergeFrom encodes both versions of all entries,
// decodes them again and compares them.
// docs/decisions/a-status-patch-encodes-the-entries-once.md says why.
func statusPatch(version string, from, to v1alpha1.AppServiceStatus) (client.Patch, error) {
	status, err := mergePatch(withoutEntries(from), withoutEntries(to))
	if err != nil {
		return nil, fmt.Errorf("compare the status: %w", err)
	}
	if stored := storedEntries(to); !equality.Semantic.DeepEqual(storedEntries(from), stored) {
		if status["clusters"], err = json.Marshal(stored); err != nil {
			return nil, fmt.Errorf("encode the entries: %w", err)
		}
	}
	if len(status) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": version},
		"status":   status,
	})
	return client.RawPatch(types.MergePatchType, data), err
}

// storedEntries returns the entries that are stored in the status itself.
func storedEntries(status v1alpha1.AppServiceStatus) []v1alpha1.ClusterStatus {
	if status.ClustersIn == v1alpha1.ClustersInSlices {
		return nil
	}
	return status.Clusters
}

func withoutEntries(status v1alpha1.AppServiceStatus) v1alpha1.AppServiceStatus {
	status.Clusters = nil
	return status
}

// mergePatch returns the JSON merge patch from one status to another, by field.
func mergePatch(from, to v1alpha1.AppServiceStatus) (map[string]json.RawMessage, error) {
	before, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	data, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, err
	}
	patch := map[string]json.RawMessage{}
	return patch, json.Unmarshal(data, &patch)
}
