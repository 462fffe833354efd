package sources

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// keyData is the key in the data of the Secret.
const keyData = "key"

// keyMargin is how much later than the key a snapshot is created at least that certainly has a digest
// with this key. The clocks of API servers may differ.
const keyMargin = time.Minute

// keyStore has the key for digests. It is read once, and created if it does not exist. It is safe for
// concurrent use.
type keyStore struct {
	hub       *hubClient
	namespace string
	reads     singleflight.Group

	mu    sync.Mutex
	known *storedKey
}

// storedKey is the key as the hub has it.
type storedKey struct {
	configuration.Key
	// since is when the Secret was created, or zero if its data may have changed since.
	since time.Time
}

// hasMade reports whether the digest of a snapshot certainly is with this key.
func (k *storedKey) hasMade(snapshot configuration.Snapshot) bool {
	return !k.since.IsZero() && snapshot.CreationTime.Sub(k.since) >= keyMargin
}

// HasDigest reports whether a content has the digest of its snapshot. It is also true for a snapshot that
// may be older than the key, and if nothing is propagated any more: then nothing reads the key.
func (s *Sources) HasDigest(ctx context.Context, id configuration.Identity, snapshot configuration.Snapshot, content configuration.Content) (bool, error) {
	if s.key == nil {
		return true, nil
	}
	key, err := s.key.get(ctx)
	if err != nil {
		return false, err
	}
	return !key.hasMade(snapshot) || configuration.DigestOf(key.Key, id, content) == snapshot.Digest, nil
}

// badKeyError is returned if the hub refuses the key, or if its Secret has another content.
type badKeyError struct{ problem string }

func (e *badKeyError) Error() string { return e.problem }

// get returns the key.
func (k *keyStore) get(ctx context.Context) (*storedKey, error) {
	if known := k.last(); known != nil {
		return known, nil
	}
	return share(ctx, &k.reads, "key", k.load)
}

func (k *keyStore) last() *storedKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known
}

// load reads or creates the key.
func (k *keyStore) load(ctx context.Context) (*storedKey, error) {
	if known := k.last(); known != nil { // another call has ended just before this one
		return known, nil
	}
	secret, err := k.readOrCreate(ctx)
	switch {
	case err != nil && isRefusal(err):
		return nil, &badKeyError{problemOf(k.namespace, err).Message}
	case err != nil:
		return nil, err
	}
	key, err := configuration.NewKey(secret.Data[keyData])
	if err != nil {
		return nil, &badKeyError{fmt.Sprintf("Secret %s/%s: %s: restore it from a backup, or delete it to get a new key", k.namespace, KeyName, err)}
	}
	known := &storedKey{Key: key}
	if secret.Immutable != nil && *secret.Immutable {
		known.since = secret.CreationTimestamp.Time
	}
	k.mu.Lock()
	k.known = known
	k.mu.Unlock()
	return known, nil
}

// readOrCreate returns the Secret with the key. If several replicas create it, all get the first.
func (k *keyStore) readOrCreate(ctx context.Context) (*corev1.Secret, error) {
	doing := fmt.Sprintf("Secret %s/%s", k.namespace, KeyName)
	secret, err := k.hub.core.Secrets(k.namespace).Get(quietly(ctx), KeyName, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return secret, hideContent("read "+doing, v1alpha1.ConfigurationSecret, err)
	}
	data := make([]byte, configuration.KeySize)
	if _, err := rand.Read(data); err != nil {
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	created, err := k.hub.core.Secrets(k.namespace).Create(quietly(ctx), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: KeyName},
		Data:       map[string][]byte{keyData: data},
		Immutable:  new(true),
	}, metav1.CreateOptions{FieldManager: v1alpha1.ManagedBy})
	if apierrors.IsAlreadyExists(err) {
		created, err = k.hub.core.Secrets(k.namespace).Get(quietly(ctx), KeyName, metav1.GetOptions{})
	}
	return created, hideContent("create "+doing, v1alpha1.ConfigurationSecret, err)
}
