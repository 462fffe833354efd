// Package contents reads the ConfigMaps and Secrets of an AppService on the hub, with the permissions
// of the caller: the sources in spec.configuration, and their snapshots.
//
//   - A [Reader] reads each object once. An object that cannot be read is a content with a problem.
//   - An object that is not a snapshot of the AppService has no content.
//   - An error of a Secret never has its content ([WithoutContent]).
package contents
