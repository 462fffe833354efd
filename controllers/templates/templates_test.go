package templates

import (
	"context"
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/internal/servertest"
)

var (
	environment = servertest.New()
	hub         client.Client
)

func TestMain(m *testing.M) { os.Exit(servertest.Run(m.Run, connect, environment)) }

func connect() (err error) {
	hub, err = client.New(environment.Config, client.Options{Scheme: scheme.Scheme})
	return err
}

// counter counts the reads.
type counter struct {
	client.Reader
	reads int
}

func (c *counter) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	c.reads++
	return c.Reader.Get(ctx, key, object, options...)
}

// newApp returns an AppService with revisions 1 and 2, and with the second in its status.
func newApp(t *testing.T, name string) *v1alpha1.AppService {
	t.Helper()
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name, app.UID, app.Generation = "default", name, types.UID(name), 1
	app.Spec.Configuration = []v1alpha1.ConfigurationSource{{Kind: v1alpha1.ConfigurationConfigMap, Name: "settings"}}
	app.Status.ObservedGeneration, app.Status.Rollout.Revision = 1, 2
	for number := range int64(2) {
		app.Spec.Image = fmt.Sprintf("nginx:%d", number+1)
		stored, err := revision.New(app, number+1, nil, nil)
		if err == nil {
			err = hub.Create(t.Context(), stored)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return app
}

// imageOf returns the image that a cluster with a revision is to run.
func imageOf(t *testing.T, r *Reader, app *v1alpha1.AppService, number int64) string {
	t.Helper()
	desired, err := r.DesiredFor(t.Context(), app, &v1alpha1.ClusterStatus{Revision: number})
	if err != nil {
		t.Fatal(err)
	}
	return desired.Spec.Image
}

func TestReader(t *testing.T) {
	counted := &counter{Reader: hub}
	reader := NewReader(counted)
	app := newApp(t, "web")
	check := func(number int64, image string, reads int) {
		t.Helper()
		if got := imageOf(t, reader, app, number); got != image || counted.reads != reads {
			t.Errorf("revision %d has %s after %d reads, want %s after %d", number, got, counted.reads, image, reads)
		}
	}
	t.Run("reads each revision once", func(t *testing.T) {
		check(2, "nginx:2", 1)
		check(1, "nginx:1", 2)
		check(2, "nginx:2", 2)
		check(1, "nginx:1", 2)
	})
	t.Run("keeps what a cluster has at rest, however many older revisions others need", func(t *testing.T) {
		for i := range maxEarlier {
			reader.earlier.Add(key{app: types.UID(fmt.Sprint(i)), number: 1}, result{})
		}
		check(2, "nginx:2", 2)
		check(1, "nginx:1", 3)
	})
	t.Run("keeps the revision that was current until now", func(t *testing.T) {
		app.Spec.Image = "nginx:3"
		third, err := revision.New(app, 3, nil, nil)
		if err == nil {
			err = hub.Create(t.Context(), third)
		}
		if err != nil {
			t.Fatal(err)
		}
		app.Status.Rollout.Revision = 3
		check(3, "nginx:3", 4)
		check(2, "nginx:2", 4)
		check(1, "nginx:1", 4)
	})
	t.Run("reads nothing at rest without configuration", func(t *testing.T) {
		app.Spec.Configuration = nil
		check(3, "nginx:3", 4)
	})
}
