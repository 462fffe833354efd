package workload

// prune drops what is null or empty, which would claim a field that nobody asked for. It drops nothing within a list that server-side
// apply compares as one: there it would be a difference to what the API server keeps.
func prune(content map[string]any) {
	for key, value := range content {
		switch value := value.(type) {
		case nil:
			delete(content, key)
		case map[string]any:
			prune(value)
			if len(value) == 0 && !meaningful[key] {
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
	if !keyed[key] {
		return
	}
	for _, item := range list {
		if item, isMap := item.(map[string]any); isMap {
			prune(item)
		}
	}
}

var (
	// keyed are the lists that server-side apply merges by key, item for item. All others are compared as one.
	keyed = set("containers", "initContainers", "env", "ports", "volumeMounts", "volumeDevices", "volumes", "topologySpreadConstraints")

	// meaningful are the keys whose empty map says something: a selector of everything; the kind of a volume, without which it
	// would become an emptyDir; and a choice that is not made, which the member refuses and which must not vanish on the way there.
	meaningful = set("labelSelector", "namespaceSelector", "selector",
		"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
		"livenessProbe", "readinessProbe", "startupProbe", "postStart", "preStop", "exec", "valueFrom",
		"requiredDuringSchedulingIgnoredDuringExecution", "nodePublishSecretRef")
)

func set(keys ...string) map[string]bool {
	all := map[string]bool{}
	for _, key := range keys {
		all[key] = true
	}
	return all
}
