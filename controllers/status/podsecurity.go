package status

import (
	"fmt"

	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// SpecRefusedMessage returns what to say about a spec whose pod template is refused on every cluster.
func SpecRefusedMessage(in rollout.Input) string {
	keeps := "no cluster gets the AppService"
	if in.Revision != 0 {
		keeps = fmt.Sprintf("the clusters keep revision %d", in.Revision)
	}
	return fmt.Sprintf("the pod template %s; %s: change the spec, or let an administrator of the hub label namespace %s with another pod-security.kubernetes.io/enforce",
		wording.Bound(in.SpecRefusal), keeps, in.App.Namespace)
}
