package lineage

import (
	"fmt"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// BehindMessage returns what is ahead of the hub on a cluster, and how to accept it.
func BehindMessage(behind *v1alpha1.HubBehind) string {
	return WhatIsAhead(behind) + accept(behind.Accept)
}

// WhatIsAhead returns what is ahead of the hub on a cluster.
func WhatIsAhead(behind *v1alpha1.HubBehind) string {
	what := fmt.Sprintf("%s was applied for generation %d, which this hub has never planned", behind.Kind, behind.Generation)
	if behind.Revision != 0 {
		what = fmt.Sprintf("%s was applied for revision %d, which this hub does not know", behind.Kind, behind.Revision)
	}
	if behind.Placement != 0 {
		what = fmt.Sprintf("%s was applied for placement %d, which is later than the one that this removal ends", behind.Kind, behind.Placement)
	}
	if behind.CreationTime != nil {
		what = fmt.Sprintf("%s was created at %s, after this removal had started", behind.Kind, behind.CreationTime.UTC().Format(time.RFC3339))
	}
	if behind.UID != "" {
		what = fmt.Sprintf("%s was applied for an AppService of this name with UID %q, which was created later than the hub's", behind.Kind, behind.UID)
	}
	return what + ": the hub is behind the cluster; "
}

// accept returns how to continue with the state of the hub.
func accept(tokens string) string {
	return fmt.Sprintf("if the hub was restored, bring the AppService up to date; to overwrite the clusters, annotate it with %s=%s", v1alpha1.AnnotationAcceptHub, tokens)
}

// HowToAccept returns how to accept everything that is ahead on these clusters.
func HowToAccept(ahead []v1alpha1.ClusterStatus) string {
	tokens := make([]string, 0, len(ahead))
	for _, entry := range ahead {
		tokens = append(tokens, entry.HubBehind.Accept)
	}
	return accept(AcceptValue(tokens))
}
