package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// TestMissingImage tests that an image that does not exist is reported, that the old pods continue
// to run, and that a corrected image replaces the new ones. Simulated nodes cannot pull an image
// with the tag bad or doesnotexist.
func TestMissingImage(t *testing.T) {
	f := testFleet(t)
	app := f.createApp(t, "missing-image", framework.Replicas(2))
	all := []string{"north", "south", "east"}
	f.awaitReady(t, app, all...)
	f.EditApp(t, app, framework.Image("web:bad"))

	t.Run("is reported for each cluster", func(t *testing.T) {
		pulling := map[string]entry{}
		for _, member := range all {
			pulling[member] = entry{v1alpha1.ClusterProgressing, v1alpha1.ReasonImagePullBackOff}
		}
		f.awaitEntries(t, app, pulling)
		for _, c := range app.Status.Clusters {
			if want := `1 of 3 pods: container app: image "web:bad" cannot be pulled: `; !strings.HasPrefix(c.Message, want) {
				t.Errorf("want a message that starts with %q, got %q", want, c.Message)
			}
		}
	})

	t.Run("leaves the old pods ready, and the new one Pending", func(t *testing.T) {
		framework.Consistently(t, 2*time.Second, "two old pods to be ready and a new one to wait", func(ctx context.Context) error {
			var errs []error
			for _, member := range all {
				errs = append(errs, checkMissingImage(ctx, f.Members[member], app))
			}
			return errors.Join(errs...)
		})
	})

	t.Run("ends with another image, and the pod is deleted", func(t *testing.T) {
		f.EditApp(t, app, framework.Image("web:2"))
		f.awaitReady(t, app, all...)
		f.Eventually(t, "the other pods to be gone", func(ctx context.Context) error {
			for _, member := range all {
				pods, err := listPods(ctx, f.Members[member], app)
				if err != nil {
					return err
				}
				if len(pods) != 2 {
					return fmt.Errorf("%s has %d pods", member, len(pods))
				}
			}
			return nil
		})
	})
}

// cannotPull are the reasons of a container whose image cannot be pulled. A kubelet alternates between
// them; simulated nodes have the second one only.
var cannotPull = []string{"ErrImagePull", v1alpha1.ReasonImagePullBackOff}

// checkMissingImage returns an error unless a member has two ready pods, and one that cannot pull
// its image.
func checkMissingImage(ctx context.Context, member *framework.Cluster, app *v1alpha1.AppService) error {
	pods, err := listPods(ctx, member, app)
	if err != nil {
		return err
	}
	var ready, waiting int
	for i := range pods {
		status := pods[i].Status
		switch container := status.ContainerStatuses; {
		case len(container) != 1:
			return fmt.Errorf("%s: pod %s has the status %+v", member.Name(), pods[i].Name, status)
		case container[0].Ready && status.Phase == corev1.PodRunning:
			ready++
		case container[0].State.Waiting != nil && slices.Contains(cannotPull, container[0].State.Waiting.Reason) && status.Phase == corev1.PodPending:
			waiting++
		}
	}
	if ready != 2 || waiting != 1 {
		return fmt.Errorf("%s: of %d pods, %d are ready and %d cannot pull the image", member.Name(), len(pods), ready, waiting)
	}
	return nil
}

// listPods returns the pods of an AppService on a member.
func listPods(ctx context.Context, member *framework.Cluster, app *v1alpha1.AppService) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := member.Client.List(ctx, pods, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name})
	return pods.Items, err
}
