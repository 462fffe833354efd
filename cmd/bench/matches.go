package main

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// isObject matches the Deployments and Services of AppServices.
func isObject(apps []app) func(change) bool {
	names := namesOf(apps)
	return func(c change) bool { return !c.gone && !isHub(c.cluster) && names[c.name] }
}

// isGone matches the objects of AppServices that are gone, and the AppServices themselves.
func isGone(apps []app) func(change) bool {
	names := namesOf(apps)
	return func(c change) bool { return c.gone && names[c.name] }
}

// hasImage matches the Deployments of AppServices with an image.
func hasImage(apps []app) func(change) bool {
	images := map[string]string{}
	for _, a := range apps {
		images[a.Name] = a.Image
	}
	return func(c change) bool {
		deployment, ok := c.object.(*appsv1.Deployment)
		return ok && !c.gone && deployment.Spec.Template.Spec.Containers[0].Image == images[c.name]
	}
}

// hasRevision matches the Deployments of AppServices with a revision.
func hasRevision(apps []app, revision string) func(change) bool {
	names := namesOf(apps)
	return func(c change) bool {
		deployment, ok := c.object.(*appsv1.Deployment)
		return ok && !c.gone && names[c.name] && deployment.Annotations[v1alpha1.AnnotationRevision] == revision
	}
}

// isReported matches the objects of the hub whose report about AppServices a function accepts.
func isReported(apps []app, by reporter, is func(report) bool) func(change) bool {
	names := namesOf(apps)
	return func(c change) bool {
		if c.gone || !isHub(c.cluster) || !names[c.name] {
			return false
		}
		r, reports := by.reported(c.object)
		return reports && is(r)
	}
}
