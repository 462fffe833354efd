package delivery

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/delivery/diagnosis/podtest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// The Deployment owns its copies: with the policy Delete, the garbage collector of the member
// deletes them after it, and with Orphan, they stay with it.
func TestCopies_of_a_Deployment_that_is_removed(t *testing.T) {
	t.Parallel()
	t.Run("by Delete", func(t *testing.T) {
		t.Parallel()
		c := deliveredConfigured(t)
		c.expectOwner(c.deployment())
		c.sent.reset()
		c.planConfigured(withPhase(v1alpha1.ClusterRemoving))
		wait.Eventually(t, func() error {
			if c.deployment() != nil {
				return errors.New("the Deployment is there")
			}
			return nil
		})
		c.expectNoCopyRequests()
	})
	t.Run("by Orphan, and adopted again", func(t *testing.T) {
		t.Parallel()
		c := deliveredConfigured(t, withOrphan, withConflictPolicy(v1alpha1.ConflictAdoptIfIdentical))
		before := c.deployment()
		c.sent.reset()
		c.planConfigured(withPhase(v1alpha1.ClusterRemoving))
		c.expectReport(c.removing(c.confirmed))
		c.expectNoCopyRequests()
		after := c.deployment()
		if after.UID != before.UID || after.Annotations[v1alpha1.AnnotationCopies] != "" {
			t.Errorf("the Deployment has the annotations %v", after.Annotations)
		}
		if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
			t.Errorf("the Deployment changed (-before +after):\n%s", diff)
		}
		c.expectOwner(after)
		if diff := cmp.Diff(c.allCopies("1", "1", "1"), c.copiesOnMember()); diff != "" {
			t.Errorf("copies (-want +got):\n%s", diff)
		}

		c.planConfigured()
		c.expectReport(c.readyWith(1))
		c.expectCopies(c.allCopies("1", "1", "1"))
		if diff := cmp.Diff(before.Spec, c.deployment().Spec); diff != "" {
			t.Errorf("the Deployment changed (-before +after):\n%s", diff)
		}
		c.expectAtRestWithCopies()
	})
}

// expectNoCopyRequests fails the test if a request was about a ConfigMap or a Secret.
func (c *configured) expectNoCopyRequests() {
	c.Helper()
	for _, request := range c.sent.all() {
		if strings.Contains(request, " configmaps") || strings.Contains(request, " secrets") {
			c.Errorf("sent %s", request)
		}
	}
}

// Somebody deletes the Deployment and creates it again while the operator runs. The copies get the
// new owner.
func TestCopies_of_a_Deployment_that_somebody_creates_again(t *testing.T) {
	t.Parallel()
	c := deliveredConfigured(t)
	again := c.deployment()
	again.ObjectMeta = metav1.ObjectMeta{Namespace: again.Namespace, Name: again.Name, Labels: again.Labels, Annotations: again.Annotations}
	wait.Eventually(t, func() error { // the operator may create it first
		if err := onMember.Delete(t.Context(), again.DeepCopy()); client.IgnoreNotFound(err) != nil {
			return err
		}
		return onMember.Create(t.Context(), again)
	})
	c.expectOwner(again)
	wait.Eventually(t, func() error {
		if text := c.deployment().Annotations[v1alpha1.AnnotationCopies]; !strings.HasSuffix(text, ",Deployment/"+string(again.UID)) {
			return errors.New(text)
		}
		return nil
	})
	c.expectReport(c.readyWith(1))
	c.expectAtRestWithCopies()
}

// loseCopy deletes a Secret of a Deployment that has rolled out and then is not available any more.
func (c *configured) loseCopy(name string) *testReconciler {
	c.Helper()
	c.connect()
	c.planRevision()
	w := c.newReconciler()
	c.settle(w, c.allCopies("1", "1", "1"))
	c.observedDeployment()
	c.must(onMember.Delete(c.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.app.Namespace, Name: name}}))
	c.makeUnavailable()
	w.reconcileOnce()
	return w
}

// A pod that waits for its volumes for a minute may lack a copy, also if no event says so.
func TestCopies_are_applied_again_for_pods_that_wait_for_volumes(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	w := c.loseCopy(c.ofDB())
	c.createMountingPod(kubeletEvent("Scheduled", "Successfully assigned"))
	w.makeListingDue()
	c.sent.reset()
	w.reconcileOnce()
	if found := c.copiesOnMember(); len(found) != 2 {
		t.Errorf("before a minute has passed, the member has %v", sortedKeys(found))
	}
	// The same listing, a minute later.
	task, err := w.gather(t.Context(), c.key())
	c.must(err)
	task, err = withConfiguration(task, c.named)
	c.must(err)
	found, err := podReader{w.memories.pods}.list(t.Context(), client.ObjectKeyFromObject(w.app), task.objects.deployment, time.Now().Add(longVolumeWait))
	c.must(err)
	if !found.waitsForVolumes {
		t.Fatal("the pod does not wait for its volumes")
	}
	task.memory.pods = task.memory.pods.with(task.objects.deployment, found, time.Now())
	c.must(w.restoreCopies(t.Context(), task))
	if diff := cmp.Diff(c.allCopies("1", "1", "1"), c.copiesOnMember()); diff != "" {
		t.Errorf("copies (-want +got):\n%s", diff)
	}
}

// The event of the kubelet names the copy: only that one is applied again, without a wait.
func TestCopy_that_an_event_names_is_applied_again(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	w := c.loseCopy(c.ofDB())
	c.createMountingPod([]eventsv1.Event{kubeletEvent("FailedMount", fmt.Sprintf(`MountVolume.SetUp failed for volume "db" : secret %q not found`, c.ofDB()))}...)
	w.makeListingDue()
	c.sent.reset()
	w.reconcileOnce()
	if diff := cmp.Diff([]string{"PATCH secrets/" + c.ofDB()}, c.sent.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	c.expectCopies(c.allCopies("1", "1", "1"))
}

// An image cannot be pulled: the copy of the pull secret may be missing.
func TestCopy_of_a_pull_secret_is_applied_again(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	w := c.loseCopy(c.ofRegistry())
	c.createPod(podtest.Waiting("ErrImagePull", "unauthorized"))
	w.makeListingDue()
	c.sent.reset()
	w.reconcileOnce()
	if diff := cmp.Diff([]string{"PATCH secrets/" + c.ofRegistry()}, c.sent.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	c.expectCopies(c.allCopies("1", "1", "1"))
}

// rollOutTwice delivers two revisions. The copies of both are on the member, and those of the first
// are about to be deleted.
func (c *configured) rollOutTwice() (w *testReconciler, both map[string]string) {
	c.Helper()
	c.connect()
	w = c.newReconciler()
	both = firstRevision(c)
	w.reconcileOnce()
	c.completeRollout()
	w.reconcileOnce()
	maps.Copy(both, secondRevision(c))
	w.reconcileOnce()
	c.completeRollout()
	return w, both
}

// The cache of the hub shows a plan that is not the present one any more. It is no evidence to
// delete a copy.
func TestCopies_are_deleted_only_after_a_live_read_of_the_hub(t *testing.T) {
	t.Parallel()
	for name, inSlices := range map[string]bool{"entries in the status": false, "entries in slices": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConfigured(t, paused)
			c.inSlices = inSlices
			w, both := c.rollOutTwice()
			c.catchUp()
			cached := &v1alpha1.AppService{}
			c.must(hubCached.GetClient().Get(t.Context(), c.key(), cached))
			keep := c.app.Status.Configuration
			c.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(2)) })
			c.app.Status.Configuration = keep
			c.sent.reset()
			w.reconciler.hub = staleCluster{hubCached, []client.Object{cached}}.GetClient()
			w.reconcileOnce()
			w.reconcileOnce()
			c.expectNoRequests(t, "DELETE")
			if diff := cmp.Diff(sortedKeys(both), sortedKeys(c.copiesOnMember())); diff != "" {
				t.Fatalf("copies (-want +got):\n%s", diff)
			}

			c.planRevision()
			w.reconciler.hub = hubCached.GetClient()
			w.reconcileOnce()
			c.completeRollout()
			w.reconcileOnce()
			c.expectCopies(c.allCopies("2", "2", "1"))
		})
	}
}

// A member that refuses to delete a copy is not asked again with each reconcile.
func TestDeletion_of_a_copy_that_failed_is_repeated_after_minutes(t *testing.T) {
	t.Parallel()
	c := newConfigured(t, paused)
	w, _ := c.rollOutTwice()
	c.sent.reset()
	deletions := 0
	c.sent.answers(func(request string) (*http.Response, error) {
		if strings.HasPrefix(request, "DELETE ") {
			deletions++
			return nil, errors.New("the connection ended")
		}
		return nil, nil
	})
	for range 3 {
		if _, result := w.reconcileOnce(); result.RequeueAfter == 0 || result.RequeueAfter > blockerRetry {
			t.Errorf("requeued after %v", result.RequeueAfter)
		}
	}
	if deletions != 1 {
		t.Errorf("sent %d deletions, want 1", deletions)
	}
}

// The largest Secret and a ConfigMap with binary data arrive byte for byte.
func TestCopies_of_large_and_binary_content(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := bytes.Repeat([]byte(canary), corev1.MaxSecretSize/len(canary))
	c.name(v1alpha1.ConfigurationConfigMap, "settings", c.snapshotOf(v1alpha1.ConfigurationConfigMap, "settings",
		configuration.Content{Data: map[string][]byte{"value": []byte("é\n\t\"<\x00>\u2028")}, BinaryData: map[string][]byte{"binary": every}}, 0))
	c.name(v1alpha1.ConfigurationSecret, "db", c.snapshotOf(v1alpha1.ConfigurationSecret, "db",
		configuration.Content{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"password": large}}, 0))
	c.start()
	c.planRevision()
	c.expectReport(c.readyWith(1))
	configMap, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	c.must(onMember.Get(t.Context(), client.ObjectKey{Namespace: c.app.Namespace, Name: c.ofSettings()}, configMap))
	c.must(onMember.Get(t.Context(), client.ObjectKey{Namespace: c.app.Namespace, Name: c.ofDB()}, secret))
	if !bytes.Equal(configMap.BinaryData["binary"], every) || configMap.Data["value"] != "é\n\t\"<\x00>\u2028" || len(configMap.Data)+len(configMap.BinaryData) != 2 {
		t.Errorf("the ConfigMap has %q and %q", configMap.Data, configMap.BinaryData)
	}
	if !bytes.Equal(secret.Data["password"], large) || len(secret.Data) != 1 {
		t.Errorf("the Secret has %d keys, and %d bytes", len(secret.Data), len(secret.Data["password"]))
	}
	c.expectAtRestWithCopies()
}
