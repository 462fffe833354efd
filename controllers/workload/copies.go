package workload

import (
	"cmp"
	"slices"
	"strings"
)

// Kind is the kind of an object that travels with an AppService.
type Kind string

// The kinds that travel with an AppService.
const (
	ConfigMap Kind = "ConfigMap"
	Secret    Kind = "Secret"
)

// Reference is a ConfigMap or a Secret as the pod template of an AppService refers to it: by its
// plain name.
type Reference struct {
	Kind Kind
	Name string
}

// Copies has the name on the member for each ConfigMap and Secret that travels with the AppService.
// A name is never empty. What is not listed belongs to the member and keeps its name.
type Copies map[Reference]string

// nameFields are the fields of a pod template's spec that name a ConfigMap or a Secret in the
// namespace of the pod. A path leads through each item of a list. Members with an old Kubernetes
// have drivers for all these volumes.
//
// Not replaced are the volumeAttributes of a csi volume and the options of a flexVolume, because only
// the driver knows what they mean, and the Secrets that the ServiceAccount lists, because they are no
// part of the template. The API server refuses ephemeralContainers in a template, and a Secret as
// the dataSource of an ephemeral volume.
var nameFields = map[Kind][]string{
	ConfigMap: {
		"containers.env.valueFrom.configMapKeyRef.name",
		"containers.envFrom.configMapRef.name",
		"initContainers.env.valueFrom.configMapKeyRef.name",
		"initContainers.envFrom.configMapRef.name",
		"volumes.configMap.name",
		"volumes.projected.sources.configMap.name",
	},
	Secret: {
		"containers.env.valueFrom.secretKeyRef.name",
		"containers.envFrom.secretRef.name",
		"imagePullSecrets.name",
		"initContainers.env.valueFrom.secretKeyRef.name",
		"initContainers.envFrom.secretRef.name",
		"volumes.azureFile.secretName",
		"volumes.cephfs.secretRef.name",
		"volumes.cinder.secretRef.name",
		"volumes.csi.nodePublishSecretRef.name",
		"volumes.flexVolume.secretRef.name",
		"volumes.iscsi.secretRef.name",
		"volumes.projected.sources.secret.name",
		"volumes.rbd.secretRef.name",
		"volumes.scaleIO.secretRef.name",
		"volumes.secret.secretName",
		"volumes.storageos.secretRef.name",
	},
}

// refer makes the pod template refer to the copies. Each field is replaced once, so that the name
// of a copy may also be a plain name.
func (w Workload) refer(copies Copies) {
	if len(copies) == 0 {
		return
	}
	pod := mapAt(w.Deployment.Object, "spec", "template", "spec")
	for kind, paths := range nameFields {
		for _, path := range paths {
			copies.replace(pod, kind, path)
		}
	}
	compactPullSecrets(pod)
}

// compactPullSecrets keeps the first item of each name. Two plain names may have one copy, and the
// API server refuses to apply two items of one name.
func compactPullSecrets(pod map[string]any) {
	secrets, found := pod["imagePullSecrets"].([]any)
	if !found {
		return
	}
	seen := map[any]bool{}
	pod["imagePullSecrets"] = slices.DeleteFunc(secrets, func(item any) bool {
		secret, _ := item.(map[string]any)
		isDuplicate := seen[secret["name"]]
		seen[secret["name"]] = true
		return isDuplicate
	})
}

// replace replaces the names at a path of a rendered value.
func (c Copies) replace(value any, kind Kind, path string) {
	visit(value, path, func(object map[string]any, field string) {
		name, _ := object[field].(string)
		if copied, listed := c[Reference{kind, name}]; listed {
			object[field] = copied
		}
	})
}

// visit calls do with each object that has the last field of a path.
func visit(value any, path string, do func(object map[string]any, field string)) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			visit(item, path, do)
		}
	case map[string]any:
		field, rest, isDeeper := strings.Cut(path, ".")
		if isDeeper {
			visit(value[field], rest, do)
			return
		}
		do(value, field)
	}
}

// References returns the ConfigMaps and Secrets to which the pod template of a rendered Deployment
// refers, sorted by kind and name.
func (w Workload) References() []Reference {
	var all []Reference
	pod := mapAt(w.Deployment.Object, "spec", "template", "spec")
	for kind, paths := range nameFields {
		for _, path := range paths {
			visit(pod, path, func(object map[string]any, field string) {
				if name, _ := object[field].(string); name != "" {
					all = append(all, Reference{kind, name})
				}
			})
		}
	}
	slices.SortFunc(all, func(a, b Reference) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return slices.Compact(all)
}
