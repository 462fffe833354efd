package doctor

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/join"
)

// advice says which commands write what a cluster lacks.
type advice struct {
	// cluster is the name of the cluster, and secret is the NAMESPACE/NAME of its Secret.
	cluster, secret string
	// isJoined reports whether join writes the Secret. Those of other tools, and those that were
	// written by hand, join does not replace.
	isJoined bool
	// isLoopback is set if the context of the cluster leads to this machine only, which join accepts
	// with a flag.
	isLoopback bool
}

// join returns the command line of join for a context.
func (a advice) join(contextName string) string {
	command := "kubectl appsvc join " + contextName
	if a.isLoopback {
		command += " --" + join.FlagAllowLoopback
	}
	return command
}

// adviceFor returns the advice for a cluster. It reads only the metadata of the Secret. Without the
// permission for that, the name of the Secret decides.
func adviceFor(ctx context.Context, o *hub.Options, h hub.Client, found *v1alpha1.MemberCluster) advice {
	key := client.ObjectKey{Namespace: o.SecretNamespace, Name: found.Name}
	if secret := found.Annotations[v1alpha1.AnnotationSecret]; secret != "" && secret != key.String() {
		return advice{cluster: found.Name, secret: secret}
	}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := h.Get(ctx, key, secret)
	return advice{cluster: found.Name, secret: key.String(), isJoined: err != nil || join.IsFromJoin(secret)}
}

// forCredentials says how to write new credentials of the hub.
func (a advice) forCredentials(contextName string) string {
	if a.isJoined {
		return fmt.Sprintf("Run: %s --name %s", a.join(contextName), a.cluster)
	}
	return fmt.Sprintf("Write new ones to Secret %s (%q in docs/maintenance.md)", a.secret, "Rotate credentials")
}

// forConfiguration says how to grant writing ConfigMaps and Secrets.
func (a advice) forConfiguration(contextName string, namespaces []string) string {
	before, after, _ := strings.Cut(a.forPermissions(contextName, namespaces), a.join(contextName))
	return before + a.join(contextName) + " --" + join.FlagConfiguration + after
}

// forPermissions says how to grant the permissions on the member, in all namespaces if none is named.
func (a advice) forPermissions(contextName string, namespaces []string) string {
	if a.isJoined {
		return fmt.Sprintf("Run: %s --name %s", a.join(contextName), a.cluster)
	}
	flag := ""
	if len(namespaces) > 0 {
		flag = " --namespaces " + strings.Join(namespaces, ",")
	}
	return fmt.Sprintf("Run: %s%s --print-only member | kubectl --context %s apply --server-side -f -", a.join(contextName), flag, contextName)
}
