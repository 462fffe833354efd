package clusters

import (
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

// required returns the kind of an object, and whether a member's cache must have it before the member is
// engaged.
func (o *Options) required(object runtime.Object) (watchedKind, bool) {
	kind, err := kindOf(object, o.Scheme)
	return kind, err == nil && slices.Contains(o.watched, kind)
}

// watchedCache is the cache of a member. It refuses a wait for the informer of a kind that was not
// listed in Watch: a controller of multicluster-runtime holds a lock for all members meanwhile, so one
// member that denies this kind, or does not answer, would hold up all others.
// docs/decisions/a-process-beside-the-operator-only-reads.md says more.
type watchedCache struct {
	cache.Cache
	options *Options
}

// newCache returns the cache of a member.
func (o *Options) newCache(config *rest.Config, options cache.Options) (cache.Cache, error) {
	c, err := NewCache(config, options)
	if err != nil {
		return nil, err
	}
	return &watchedCache{c, o}, nil
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
	kind, err := kindOf(object, c.options.Scheme)
	if err != nil {
		return err
	}
	if slices.Contains(c.options.watched, kind) || get.BlockUntilSynced != nil && !*get.BlockUntilSynced {
		return nil
	}
	return fmt.Errorf("%s is not watched on members: add it to clusters.Options.Watch", kind)
}
