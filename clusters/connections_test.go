package clusters_test

import (
	"fmt"
	"testing"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// Each list uses a connection of its own, which is closed after the list. The connection that stays
// open never carried a list.
func TestMember_at_rest_has_one_connection(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.operator, "connections")
	e := m.join(t)
	m.createDeployment(t, m.name+"-app")
	e.waitForDeployment(t, m.name+"-app")
	wait.Eventually(t, func() error {
		if accepted, open := m.link.connectionCounts(); accepted < 2 || open != 1 {
			return fmt.Errorf("%d connections were made and %d are open", accepted, open)
		}
		return nil
	})
	m.checkContinues(t, e)
}
