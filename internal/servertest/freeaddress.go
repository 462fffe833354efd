package servertest

import (
	"fmt"
	"testing"

	"github.com/fleetwright/fleetwright/internal/environment/kwok"
)

// FreeAddress returns an address of this machine for a server that the test starts, or at which no
// server listens. Until this process ends, the port is not given to another program of the tests, nor
// by the kernel to a client, as the port of a listener that was closed may be.
func FreeAddress(t *testing.T) string {
	t.Helper()
	ports, err := kwok.FreePorts(t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0])
}
