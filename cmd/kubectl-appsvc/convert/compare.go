package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxValue is the maximum length of a value in a note.
const maxValue = 60

// compare returns the fields that an object has and a rendered one does not, or has with another
// value, as "PATH: VALUE". Defaults and what the API server sets are left out.
func compare(path string, has, rendered any) []string {
	if isIgnored(path, has) {
		return nil
	}
	switch has := has.(type) {
	case map[string]any:
		other, _ := rendered.(map[string]any)
		has = withoutImplied(has)
		var missing []string
		for _, key := range slices.Sorted(maps.Keys(has)) {
			missing = append(missing, compare(path+"."+key, has[key], other[key])...)
		}
		return missing
	case []any:
		other, _ := rendered.([]any)
		var missing []string
		for i := range has {
			missing = append(missing, compare(fmt.Sprintf("%s[%s]", path, nameOf(has[i], i)), has[i], counterpart(has[i], i, other))...)
		}
		return missing
	}
	if fmt.Sprint(has) == fmt.Sprint(rendered) {
		return nil
	}
	content, _ := json.Marshal(has) // it was read from JSON or YAML
	text := string(content)
	if len(text) > maxValue {
		text = text[:maxValue] + "…"
	}
	return []string{strings.TrimPrefix(path, ".") + ": " + text}
}

// withoutImplied returns an object without fields that follow from another one: the old name of
// serviceAccountName, the pull policy that the API server chooses by the tag of the image, and an
// address that it has allocated.
func withoutImplied(object map[string]any) map[string]any {
	implied := maps.Clone(object)
	if object["serviceAccount"] != nil {
		delete(implied, "serviceAccount") // the AppService has it as serviceAccountName
	}
	if image, isContainer := object["image"].(string); isContainer && object["imagePullPolicy"] == defaultPullPolicy(image) {
		delete(implied, "imagePullPolicy")
	}
	if address := object["clusterIP"]; address != "None" {
		delete(implied, "clusterIP")
	}
	return implied
}

// defaultPullPolicy returns the pull policy that the API server chooses for an image.
func defaultPullPolicy(image string) string {
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if !strings.Contains(image, "@") && (tag == "" || tag == "latest") {
		return "Always"
	}
	return "IfNotPresent"
}

// nameOf returns the name of an item of a list, or its index.
func nameOf(item any, i int) string {
	if fields, isObject := item.(map[string]any); isObject {
		if name, has := fields["name"].(string); has {
			return name
		}
	}
	return fmt.Sprint(i)
}

// counterpart returns the item of a list that has the same name, or the same index if it has none.
func counterpart(item any, i int, in []any) any {
	name := nameOf(item, i)
	for j := range in {
		if nameOf(in[j], j) == name {
			return in[j]
		}
	}
	return nil
}

// defaults are the values that the API server sets in fields without a value. A path ends with the
// key.
var defaults = map[string][]string{
	".revisionHistoryLimit":          {"10"},
	".progressDeadlineSeconds":       {"600"},
	".maxSurge":                      {"25%"},
	".maxUnavailable":                {"25%"},
	".strategy.type":                 {"RollingUpdate"},
	".dnsPolicy":                     {"ClusterFirst"},
	".template.spec.restartPolicy":   {"Always"},
	".schedulerName":                 {"default-scheduler"},
	".terminationGracePeriodSeconds": {"30"},
	".terminationMessagePath":        {"/dev/termination-log"},
	".terminationMessagePolicy":      {"File"},
	".protocol":                      {"TCP"},
	".failureThreshold":              {"3"},
	".periodSeconds":                 {"10"},
	".successThreshold":              {"1"},
	".timeoutSeconds":                {"1"},
	".scheme":                        {"HTTP"},
	".defaultMode":                   {"420"},
	".fieldRef.apiVersion":           {"v1"},
	".internalTrafficPolicy":         {"Cluster"},
	".externalTrafficPolicy":         {"Cluster"},
	".ipFamilyPolicy":                {"SingleStack"},
	".sessionAffinity":               {"None"},
	".allocateLoadBalancerNodePorts": {"true"},
	".spec.type":                     {"ClusterIP"},
}

// serverFields are fields that only the API server sets, and those that an AppService always sets to
// its own values. A suffix that begins with a dot ends the path, any other one is a part of it.
var serverFields = []string{
	".status", ".metadata.creationTimestamp", ".metadata.uid", ".metadata.resourceVersion", ".metadata.generation", ".metadata.managedFields",
	".metadata.selfLink", ".metadata.namespace", ".spec.clusterIPs", ".spec.ipFamilies", ".spec.template.metadata.creationTimestamp",
	".spec.selector", ".metadata.name", ".metadata.ownerReferences", ".spec.healthCheckNodePort",
	".metadata.annotations.kubectl.kubernetes.io/last-applied-configuration", ".metadata.annotations.deployment.kubernetes.io/revision",
	".labels.app.kubernetes.io/managed-by",
}

// isIgnored reports whether a field needs no note: it is a default, or an AppService sets it.
func isIgnored(path string, value any) bool {
	for _, field := range serverFields {
		if strings.HasSuffix(path, field) {
			return true
		}
	}
	if strings.Contains(path, ".labels."+ownPrefix) || strings.Contains(path, ".annotations."+ownPrefix) {
		return true
	}
	for suffix, values := range defaults {
		if strings.HasSuffix(path, suffix) && slices.Contains(values, fmt.Sprint(value)) {
			return true
		}
	}
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case string:
		return value == ""
	}
	return strings.HasPrefix(path, ".spec.ports") && strings.HasSuffix(path, ".nodePort") // the API server allocates it for a load balancer
}
