package entryplan

import (
	"fmt"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Abandoned returns the clusters that the annotation abandons. It is never nil.
func Abandoned(app *v1alpha1.AppService) map[string]bool {
	abandoned := map[string]bool{}
	names := app.Annotations[v1alpha1.AnnotationAbandon]
	if names == "" || app.IsSuspended() || app.Status.IsHubBehind() {
		return abandoned
	}
	for name := range strings.SplitSeq(names, ",") {
		abandoned[strings.TrimSpace(name)] = true
	}
	return abandoned
}

// AbandonCommand returns the command that abandons clusters. It returns "" while the annotation has
// no effect. The command replaces an earlier value, because the removals from the clusters in that
// value do not wait any more.
func AbandonCommand(app *v1alpha1.AppService, clusters []string) string {
	if app.IsSuspended() || app.Status.IsHubBehind() {
		return ""
	}
	overwrite := ""
	if _, isSet := app.Annotations[v1alpha1.AnnotationAbandon]; isSet {
		overwrite = " --overwrite"
	}
	return fmt.Sprintf("kubectl annotate appservice %s -n %s%s %s=%s", app.Name, app.Namespace, overwrite, v1alpha1.AnnotationAbandon, strings.Join(clusters, ","))
}
