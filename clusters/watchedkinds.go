package clusters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// watchedKind is a kind in the form in which a cache holds it: typed, metadata only, or unstructured.
// Each form of a kind has an informer of its own.
type watchedKind struct {
	gvk  schema.GroupVersionKind
	form reflect.Type
}

// String returns the form and the kind, for people.
func (k watchedKind) String() string { return fmt.Sprintf("%s (%s)", k.form, k.gvk.GroupKind()) }

func kindOf(object runtime.Object, scheme *runtime.Scheme) (watchedKind, error) {
	gvk, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		return watchedKind{}, err
	}
	return watchedKind{gvk, reflect.TypeOf(object)}, nil
}

// watchedKinds returns the kinds that Watch lists. It returns an error if the Scheme or the Mapper does
// not know one of them: every member would fail for it.
func (o *Options) watchedKinds() (kinds []watchedKind, err error) {
	for _, object := range o.Watch {
		kind, invalid := kindOf(object, o.Scheme)
		if invalid == nil {
			_, invalid = o.Mapper.RESTMapping(kind.gvk.GroupKind(), kind.gvk.Version)
		}
		if invalid != nil {
			err = errors.Join(err, fmt.Errorf("kind %T in Watch: %w", object, invalid))
		}
		kinds = append(kinds, kind)
	}
	return kinds, err
}

// watchedKind returns the kind of an object. It returns an error if Watch does not have that kind.
func (o *Options) watchedKind(object runtime.Object) (watchedKind, error) {
	kind, err := kindOf(object, o.Scheme)
	if err == nil && !slices.Contains(o.watched, kind) {
		err = fmt.Errorf("%s is not watched on members: add it to clusters.Options.Watch", kind)
	}
	return kind, err
}

// watchedCache is the cache of a member. It refuses a wait for the informer of a kind that was not
// listed in Watch: a controller of multicluster-runtime holds a lock for all members meanwhile, so one
// member that denies this kind, or does not answer, would hold up all others.
// docs/decisions/a-process-beside-the-operator-only-reads.md says more.
//
// When the session has ended, a read returns an error: what is in the cache is no longer current.
type watchedCache struct {
	cache.Cache
	options *Options
	session context.Context
}

// newCache returns the cache of a member.
func (s *session) newCache(config *rest.Config, options cache.Options) (cache.Cache, error) {
	c, err := NewCache(config, options)
	if err != nil {
		return nil, err
	}
	return &watchedCache{c, s.options, s.ctx}, nil
}

// Get reads an object.
func (c *watchedCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return cmp.Or(c.Cache.Get(ctx, key, object, options...), c.ended())
}

// List reads objects.
func (c *watchedCache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return cmp.Or(c.Cache.List(ctx, list, options...), c.ended())
}

// ended returns an error if the session has ended.
func (c *watchedCache) ended() error {
	if err := c.session.Err(); err != nil {
		return fmt.Errorf("the connection to the member has ended: %w", err)
	}
	return nil
}

// RemoveInformer removes the informer of a kind that Watch does not have. A session has the others until it
// ends.
func (c *watchedCache) RemoveInformer(ctx context.Context, object client.Object) error {
	if kind, err := c.options.watchedKind(object); err == nil {
		return fmt.Errorf("%s is in clusters.Options.Watch: its informer cannot be removed", kind)
	}
	return c.Cache.RemoveInformer(ctx, object)
}

// IndexField adds an index for a kind of Watch.
func (c *watchedCache) IndexField(ctx context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	if _, err := c.options.watchedKind(object); err != nil {
		return err
	}
	return c.Cache.IndexField(ctx, object, field, extract)
}

// GetInformer returns the informer of a kind, and creates it if it does not exist.
func (c *watchedCache) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	if err := c.check(object, options); err != nil {
		return nil, err
	}
	return c.Cache.GetInformer(ctx, object, options...)
}

// GetInformerForKind returns the informer of a typed kind, and creates it if it does not exist.
func (c *watchedCache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, options ...cache.InformerGetOption) (cache.Informer, error) {
	object, err := c.options.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	if err := c.check(object, options); err != nil {
		return nil, err
	}
	return c.Cache.GetInformerForKind(ctx, gvk, options...)
}

func (c *watchedCache) check(object runtime.Object, options []cache.InformerGetOption) error {
	var get cache.InformerGetOptions
	for _, set := range options {
		set(&get)
	}
	if get.BlockUntilSynced != nil && !*get.BlockUntilSynced {
		return nil
	}
	_, err := c.options.watchedKind(object)
	return err
}
