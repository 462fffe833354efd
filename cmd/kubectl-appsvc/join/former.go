package join

import (
	"fmt"

	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
)

// describeFormer returns which credentials of the hub stay valid on the member after join has replaced
// them, and how to end them. It returns "" if they are replaced by tokens of the same kind, which
// expire. before is nil if there were none.
func describeFormer(before *kubeconfig.Config, contextName string) string {
	if before == nil {
		return ""
	}
	if before.Certificate != nil && before.Certificate.Leaf != nil {
		return fmt.Sprintf("The former client certificate of %q stays valid until %s, and Kubernetes cannot revoke it: delete the bindings of this user on the member.",
			output.Printable(before.Certificate.Leaf.Subject.CommonName), output.FormatTime(before.Certificate.Leaf.NotAfter))
	}
	if before.Token == "" || !before.Expiry().End.IsZero() {
		return ""
	}
	holder := before.Holder()
	if holder.Secret == "" {
		return "The former token stays valid, and names no time of expiry: revoke it where it was issued."
	}
	return fmt.Sprintf("The former token stays valid and does not expire: it is that of Secret %s in namespace %s of the member, for ServiceAccount %s. To end it:\n"+
		"  kubectl --context %s delete secret %s -n %s", holder.Secret, holder.Account.Namespace, holder.Account.Name, contextName, holder.Secret, holder.Account.Namespace)
}
