package oci

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// ParseTag returns the name of an image to build. A digest is the result of a build, so it is
// refused.
func ParseTag(text string) (name.Tag, error) {
	tag, err := name.NewTag(text)
	if err != nil {
		return name.Tag{}, fmt.Errorf("%q is no name of an image, such as registry.example/fleetwright:v0.1.0: %w", text, err)
	}
	return tag, nil
}

// Push pushes an index and its images, with the credentials of `docker login`.
func Push(ctx context.Context, tag name.Tag, index v1.ImageIndex) error {
	return remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
}
