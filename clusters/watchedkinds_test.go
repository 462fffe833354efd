package clusters_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// metadataOf returns a kind in the form of its metadata.
func metadataOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gvk)
	return object
}

var deployments = appsv1.SchemeGroupVersion.WithKind("Deployment")

// Nothing waits for the informer of a kind that was not announced. One member that denies the kind would
// hold up the controllers of all members.
func TestCache_refuses_to_wait_for_a_kind_that_is_not_watched(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.operator, "unwatched-kinds")
	members := m.join(t).cluster.GetCache()
	for name, get := range map[string]func(...cache.InformerGetOption) error{
		"a kind": func(options ...cache.InformerGetOption) error {
			_, err := members.GetInformer(ctx, &corev1.ConfigMap{}, options...)
			return err
		},
		"a kind by its name": func(options ...cache.InformerGetOption) error {
			_, err := members.GetInformerForKind(ctx, corev1.SchemeGroupVersion.WithKind("Endpoints"), options...)
			return err
		},
		"another form of a kind": func(options ...cache.InformerGetOption) error {
			_, err := members.GetInformer(ctx, metadataOf(deployments), options...)
			return err
		},
	} {
		for _, options := range [][]cache.InformerGetOption{nil, {cache.BlockUntilSynced(true)}} {
			if err := get(options...); err == nil || !strings.Contains(err.Error(), "is not watched on members: add it to clusters.Options.Watch") {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
	if _, err := members.GetInformer(ctx, metadataOf(deployments), cache.BlockUntilSynced(false)); err != nil {
		t.Errorf("without a wait: %v", err)
	}
	if _, err := members.GetInformer(ctx, &appsv1.Deployment{}); err != nil {
		t.Errorf("a kind that is watched: %v", err)
	}
}

// A kind may be watched as metadata only. The member is engaged after that cache is synced too.
func TestCache_has_the_metadata_of_a_kind(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-metadata", func(with *setup) {
		with.Watch = append(with.Watch, metadataOf(deployments))
	})
	m := env.newMember(t, o, "metadata")
	m.createDeployment(t, "metadata")
	e := m.join(t)
	found := metadataOf(deployments)
	if err := e.cluster.GetClient().Get(ctx, client.ObjectKey{Namespace: memberNamespace, Name: "metadata"}, found); err != nil || found.UID == "" {
		t.Errorf("got %+v (%v)", found, err)
	}
}

// A member that denies one of the kinds is not engaged, and says which one. It holds up no other member.
func TestMember_that_denies_a_kind_is_not_engaged(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := newControlledOperator(t, env, "fleet-denied-kind", 5*time.Second)
	denying, good := env.newMemberWithoutRole(t, o.operator, "denies-a-kind"), env.newMember(t, o.operator, "denies-no-kind")
	denying.grantProbeRole(t)
	denying.createSecret(t, denying.kubeconfig(t))
	denying.waitForConditions(t, "Ready False Forbidden, CredentialsValid Unknown NotVerified")
	denying.waitForMessage(t, `cannot list resource "deployments"`)
	denying.checkNoCluster(t)
	good.createDeployment(t, "denies-no-kind")
	good.join(t)
	o.stock.expectRead(t, good, "denies-no-kind")
	denying.grantMemberRole(t, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: memberNamespace, Name: denying.name})
	denying.waitForEngagement(t, 1)
	denying.createDeployment(t, "denies-nothing")
	o.stock.expectRead(t, denying, "denies-nothing")
}

// The list of metadata that client-go returns with an error is no list.
func TestMember_that_denies_the_metadata_of_a_kind_is_not_engaged(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-denied-metadata", func(with *setup) {
		with.Watch = []client.Object{metadataOf(deployments)}
	})
	m := env.newMemberWithoutRole(t, o, "denies-metadata")
	m.grantProbeRole(t)
	m.createSecret(t, m.kubeconfig(t))
	m.waitForConditions(t, "Ready False Forbidden, CredentialsValid Unknown NotVerified")
	m.waitForMessage(t, `cannot list resource "deployments"`)
}
