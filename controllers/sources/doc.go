// Package sources connects the pure decisions of package configuration with the hub.
package sources
