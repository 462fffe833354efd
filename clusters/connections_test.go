package clusters_test

import (
	"fmt"
	"testing"
)

func TestConnections(t *testing.T) {
	t.Run("lists leave none open, so that at rest there is one, which never carried a list", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "connections")
		e := m.join(t)
		m.createDeployment(t, m.name+"-app")
		e.waitForDeployment(t, m.name+"-app", testTimeout)
		eventually(t, testTimeout, func() error {
			if accepted, open := m.link.connectionCounts(); accepted < 2 || open != 1 {
				return fmt.Errorf("%d connections were made and %d are open", accepted, open)
			}
			return nil
		})
		m.checkContinues(t, e)
	})
}
