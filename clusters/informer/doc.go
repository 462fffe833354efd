// Package informer is an informer that costs little at rest. It implements client-go's
// SharedIndexInformer, and a cache of controller-runtime uses it through its option NewInformer.
//
// # Usage
//
//	options.NewInformer = func(lw cache.ListerWatcher, object runtime.Object, _ time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
//		return informer.New(ctx, informer.Options{ListerWatcher: lw, Object: object, Indexers: indexers})
//	}
//
// # What it saves
//
// It uses client-go's reflector, queue and loop, and its store with indexes. Only the delivery of
// events to handlers is its own. client-go's shared informer has three goroutines and a buffer for each
// handler, because a handler may take long, and one more goroutine for all of them. This one has a
// goroutine for a handler only while there are events, or none with [Options.DirectHandlers]. Without
// them, a member costs 6 goroutines and 63 KiB less.
//
// # What it does not do
//
//   - There is no resync. A resync period is ignored.
//   - With DirectHandlers, the next event waits for the handlers.
//
// The package also has what the cache of a hostile server needs: [Options.Admit] limits the memory
// of the store, and [Options.Recover] contains panics of the transform function. The informer lists
// and then watches: it never asks for a streaming list, which would use the connection of the watch
// (see package transport).
//
// The conformance test runs the same script with this informer and with client-go's on a real API
// server. It compares the events that the handlers receive and the results of the methods.
package informer
