package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
)

// FieldManager is the field manager of everything that the plugin writes on the hub.
const FieldManager = "appsvc"

// PatchOptions are the options of a patch on the hub. The hub refuses a field that its CRD does not
// have, which it would otherwise leave out without an error.
var PatchOptions = &client.PatchOptions{FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict}

// Options are the flags that select the hub.
type Options struct {
	*genericclioptions.ConfigFlags
	output.Streams
	// Version is that of the plugin.
	Version string
	// connected is the connection to the hub that a command has made last, or nil.
	connected *Client
	// SecretNamespace has the kubeconfig Secrets of members, and the Lease of the operator.
	SecretNamespace string
}

// Client is the connection to the hub.
type Client struct {
	client.WithWatch
	// watcher is the same connection without a limit of the time of a request.
	watcher client.WithWatch
	Config  *rest.Config
	// Namespace is that of the flag, or of the context.
	Namespace string
}

// NewScheme returns the kinds that the commands know.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// Connect returns the connection to the hub. It sends no request.
func (o *Options) Connect() (Client, error) {
	if err := o.checkConfigured(); err != nil {
		return Client{}, err
	}
	config, err := o.ToRESTConfig()
	if err != nil {
		return Client{}, err
	}
	config.UserAgent = rest.DefaultKubernetesUserAgent()
	// A command sends few requests, and a user waits for it.
	config.QPS, config.Burst = 50, 300
	namespace, _, err := o.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return Client{}, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: NewScheme()})
	if err != nil {
		return Client{}, fmt.Errorf("connect to the hub: %w", err)
	}
	unlimited := rest.CopyConfig(config)
	unlimited.Timeout = 0
	watcher, err := client.NewWithWatch(unlimited, client.Options{Scheme: c.Scheme(), Mapper: c.RESTMapper()})
	if err != nil {
		return Client{}, fmt.Errorf("connect to the hub: %w", err)
	}
	o.connected = &Client{WithWatch: c, watcher: watcher, Config: config, Namespace: namespace}
	return *o.connected, nil
}

// pageSize is how many objects of a list the hub returns at a time, as for kubectl.
const pageSize = 500

// List reads all pages of a list.
func (h Client) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	var items []runtime.Object
	for next := ""; ; {
		err := h.WithWatch.List(ctx, list, append(slices.Clone(options), client.Limit(pageSize), client.Continue(next))...)
		switch {
		case next != "" && apierrors.IsResourceExpired(err): // the pages took too long
			return h.WithWatch.List(ctx, list, options...)
		case err != nil:
			return err
		}
		if next = list.GetContinue(); next == "" && items == nil {
			return nil
		}
		page, err := meta.ExtractList(list)
		if err != nil {
			return err
		}
		if items = append(items, page...); next == "" {
			return meta.SetList(list, items)
		}
		if err := meta.SetList(list, nil); err != nil { // items has its objects
			return err
		}
	}
}

// Watch watches the objects that the options select. It has no limit of time, whether the user or the
// command limited the time of requests: a watch would end after that time, and everything would be read
// again.
func (h Client) Watch(ctx context.Context, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	return h.watcher.Watch(ctx, list, options...)
}

// LimitRequests limits the time of each request to the hub, unless the user gave a limit. It does not
// limit watches.
func (o *Options) LimitRequests(limit time.Duration) {
	if o.Timeout != nil && *o.Timeout == "0" {
		*o.Timeout = limit.String()
	}
}

// ReadApp returns an AppService.
func (h Client) ReadApp(ctx context.Context, name string) (*v1alpha1.AppService, error) {
	app := &v1alpha1.AppService{}
	if err := h.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, app); err != nil {
		if IsNoSuchObject(err) {
			return nil, h.NoSuchApp(name)
		}
		return nil, fmt.Errorf("read AppService %s: %w", name, err)
	}
	return app, nil
}

// NoSuchApp returns the error of an AppService that does not exist.
func (h Client) NoSuchApp(name string) error {
	return NotFoundError(fmt.Sprintf("there is no AppService %s in namespace %s of the hub: see kubectl appsvc status -A", name, h.Namespace))
}

// checkConfigured returns an error if nothing says where the hub is. Otherwise, client-go would
// connect to localhost.
func (o *Options) checkConfigured() error {
	config, err := o.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return err
	}
	_, inPod := rest.InClusterConfig()
	switch {
	case *o.APIServer != "", inPod == nil:
		return nil
	case len(config.Clusters) == 0:
		return errors.New("no hub is configured: set KUBECONFIG, or use --kubeconfig and --context")
	case config.CurrentContext == "" && *o.Context == "" && *o.ClusterName == "":
		return errors.New("the kubeconfig has no current context: use --context, or kubectl config use-context")
	}
	return nil
}

// IsNoSuchObject reports whether an object was not found, although the hub knows its kind.
func IsNoSuchObject(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name != ""
}

// ReadEntries returns an AppService with all of its entries in its status, wherever the hub has them.
// It returns an error if some of them are missing.
func (h Client) ReadEntries(ctx context.Context, name string) (*v1alpha1.AppService, error) {
	app, missing, err := h.ReadKnownEntries(ctx, name)
	if err == nil && missing > 0 {
		err = fmt.Errorf("%d AppServiceSlices of %s are missing, so the state of some clusters is not known: the operator writes them again; see kubectl appsvc status %s", missing, name, name)
	}
	return app, err
}

// ReadKnownEntries returns an AppService with the entries that the hub has, and the number of
// AppServiceSlices that are missing.
func (h Client) ReadKnownEntries(ctx context.Context, name string) (app *v1alpha1.AppService, missing int, err error) {
	if app, err = h.ReadApp(ctx, name); err != nil || !app.Status.HasSlices() {
		return app, 0, err
	}
	all, err := h.listSlices(ctx, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: name})
	if err != nil {
		return nil, 0, fmt.Errorf("list the AppServiceSlices of %s: %w", name, err)
	}
	var stored appslice.Slices
	for slot := range stored {
		stored[slot] = all[keyOfSlice(app, int32(slot))]
	}
	return entries.WithEntries(app, appslice.Join(stored)), stored.Missing(), nil
}

// sliceKey identifies an AppServiceSlice by its AppService and its slot.
type sliceKey struct {
	app  client.ObjectKey
	uid  types.UID
	slot int32
}

func keyOfSlice(app *v1alpha1.AppService, slot int32) sliceKey {
	return sliceKey{client.ObjectKeyFromObject(app), app.UID, slot}
}

// listSlices returns the AppServiceSlices that the options select. A slice with another name than
// the operator gives it is ignored.
func (h Client) listSlices(ctx context.Context, options ...client.ListOption) (map[sliceKey]*v1alpha1.AppServiceSlice, error) {
	list := &v1alpha1.AppServiceSliceList{}
	if err := h.List(ctx, list, options...); err != nil {
		return nil, err
	}
	all := map[sliceKey]*v1alpha1.AppServiceSlice{}
	for i := range list.Items {
		slice := &list.Items[i]
		if app := slice.AppService; slice.Name == v1alpha1.SliceName(app.Name, slice.Slot) {
			all[sliceKey{client.ObjectKey{Namespace: slice.Namespace, Name: app.Name}, app.UID, slice.Slot}] = slice
		}
	}
	return all, nil
}
