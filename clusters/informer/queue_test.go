package informer_test

import (
	"testing"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// A handler that does not return delays neither the informer nor another handler, and gets all events in
// their order once it returns.
func TestHandler_that_blocks_delays_no_other(t *testing.T) {
	t.Parallel()
	s := newScript(t, "blocks", informers["fleetwright"])
	s.create("a", "1")
	release, blocking, other := make(chan struct{}), &eventLog{}, &eventLog{}
	blocks := toolscache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		<-release
		blocking.OnAdd(object, false)
	}}
	early := s.addHandler("blocks early", blocks)
	go s.informer.RunWithContext(t.Context())
	s.waitFor("the informer to be in sync", s.informer.HasSynced)
	late := s.addHandler("blocks late", blocks) // it returns although the store has an object
	s.addHandler("other", other)
	s.create("b", "1")
	s.createMarker(other)
	if early.HasSynced() || late.HasSynced() || len(blocking.lines()) > 0 {
		t.Errorf("handlers that block are in sync: %v, %v", early.HasSynced(), late.HasSynced())
	}
	close(release)
	wait.Receive(t, early.HasSyncedChecker().Done(), "the handler that was added early")
	wait.Receive(t, late.HasSyncedChecker().Done(), "the handler that was added late")
	s.createMarker(blocking)
}
