package reader

import (
	"context"
	"errors"
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
	reader := New(counted, NeverRestored)
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

// storeOther stores another template as the revision with a number, as after a restore of the hub that has
// lost the first one.
func storeOther(t *testing.T, app *v1alpha1.AppService, number int64, image string) {
	t.Helper()
	app.Spec.Image = image
	stored, err := revision.New(app, number, nil, nil)
	if err == nil {
		err = hub.Delete(t.Context(), stored.DeepCopy())
	}
	if err == nil {
		err = hub.Create(t.Context(), stored)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A restore takes back the numbers, and the next templates get them again.
func TestReader_forgets_what_a_restore_of_the_hub_has_lost(t *testing.T) {
	for name, restore := range map[string]func(r *Reader, epoch *int64, app *v1alpha1.AppService){
		"the hub begins another epoch": func(_ *Reader, epoch *int64, _ *v1alpha1.AppService) { *epoch++ },
		"a status goes back": func(r *Reader, _ *int64, app *v1alpha1.AppService) {
			before := app.DeepCopy()
			before.Status.Rollout.Revision = 1
			if got := imageOf(t, r, before, 1); got != "nginx:1" {
				t.Errorf("revision 1 has %s after the restore", got)
			}
		},
		"a status is lost, without any read": func(r *Reader, _ *int64, app *v1alpha1.AppService) {
			before := app.DeepCopy()
			before.Spec.Configuration, before.Status.Rollout = nil, v1alpha1.RolloutStatus{}
			if _, err := r.DesiredFor(t.Context(), before, &v1alpha1.ClusterStatus{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var epoch int64
			reader := New(hub, func() int64 { return epoch })
			app := newApp(t, fmt.Sprintf("restored-%d", len(name)))
			if got := imageOf(t, reader, app, 2); got != "nginx:2" {
				t.Errorf("revision 2 has %s", got)
			}
			storeOther(t, app, 2, "nginx:new")
			restore(reader, &epoch, app)
			for range 2 {
				if got := imageOf(t, reader, app, 2); got != "nginx:new" {
					t.Errorf("revision 2 has %s after the restore", got)
				}
			}
		})
	}
}

// A read that began before a restore of the hub was noticed is not kept.
func TestReader_does_not_keep_a_read_across_a_restore(t *testing.T) {
	var epoch int64
	app := newApp(t, "across")
	slow := &counter{Reader: hub}
	reader := New(readerFunc(func(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		err := slow.Get(ctx, key, object, options...)
		epoch = 1 // noticed before the answer is handled
		return err
	}), func() int64 { return epoch })
	imageOf(t, reader, app, 2)
	imageOf(t, reader, app, 2)
	if slow.reads != 2 {
		t.Errorf("%d reads, want 2", slow.reads)
	}
}

// readerFunc reads single objects by a function.
type readerFunc func(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error

func (f readerFunc) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return f(ctx, key, object, options...)
}

func (readerFunc) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("not used")
}
