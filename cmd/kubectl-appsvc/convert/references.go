package convert

import (
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// noteOthers says what happens to the ConfigMaps and Secrets that the pods use, and to the objects that
// an AppService does not have.
func (from *source) noteOthers(used []workload.Reference) {
	for _, reference := range used {
		from.noteReference(reference)
	}
	for _, object := range from.others {
		reference := workload.Reference{Kind: workload.Kind(object.GetKind()), Name: object.GetName()}
		if !slices.Contains(used, reference) {
			from.note("%s %s is left out: deploy it to the members by other means", object.GetKind(), object.GetName())
		}
	}
}

// noteReference says how a ConfigMap or a Secret that the pods use reaches the members.
func (from *source) noteReference(reference workload.Reference) {
	if from.isCopy(reference) {
		from.note("%s %s is a copy that Fleetwright has made: use the name of its source, and list that in spec.configuration", reference.Kind, reference.Name)
		return
	}
	namespace := ""
	if from.deployment.Namespace != "" {
		namespace = " -n " + from.deployment.Namespace
	}
	from.note("the pods use %s %s: to send it with the AppService, list it in spec.configuration, and its owner must label it on the hub: kubectl label %s %s%s %s=true (docs/configuration.md); otherwise, deploy it to the members by other means",
		reference.Kind, reference.Name, strings.ToLower(string(reference.Kind)), reference.Name, namespace, v1alpha1.LabelPropagate)
}

// isCopy reports whether the Deployment lists an object in its record of copies.
func (from *source) isCopy(reference workload.Reference) bool {
	for item := range strings.SplitSeq(from.deployment.Annotations[v1alpha1.AnnotationCopies], ",") {
		name, _, _ := strings.Cut(item, "@")
		if name == string(reference.Kind)+"/"+reference.Name {
			return true
		}
	}
	return false
}
