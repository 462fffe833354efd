package workload

import "k8s.io/apimachinery/pkg/util/sets"

// prune removes null and empty values, which would claim a field that is not desired. It removes
// nothing within a list or a structure that server-side apply compares as a whole: there it would be
// a difference to what the API server keeps.
func prune(content map[string]any) {
	for key, value := range content {
		switch value := value.(type) {
		case nil:
			delete(content, key)
		case map[string]any:
			if key != "dataSource" { // the API server keeps an apiGroup of null
				prune(value)
			}
			if len(value) == 0 && !significantWhenEmpty.Has(key) {
				delete(content, key)
			}
		case []any:
			pruneList(key, value)
			if len(value) == 0 {
				delete(content, key)
			}
		}
	}
}

func pruneList(key string, list []any) {
	if !mapLists.Has(key) {
		return
	}
	for _, item := range list {
		if item, isMap := item.(map[string]any); isMap {
			prune(item)
		}
	}
}

var (
	// mapLists are the lists that server-side apply merges by key, item by item. It compares all
	// others as a whole.
	mapLists = sets.New("containers", "initContainers", "env", "ports", "volumeMounts", "volumeDevices", "volumes", "topologySpreadConstraints")

	// significantWhenEmpty are the keys whose empty map has a meaning: a selector of everything;
	// the type of a volume, which would otherwise become an emptyDir; and a choice that is not
	// made, which the member refuses and which must not vanish on the way there.
	significantWhenEmpty = sets.New("labelSelector", "namespaceSelector", "selector",
		"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
		"livenessProbe", "readinessProbe", "startupProbe", "postStart", "preStop", "exec", "valueFrom",
		"requiredDuringSchedulingIgnoredDuringExecution", "nodePublishSecretRef")
)
