package clusters_test

import (
	"fmt"
	"testing"
)

func TestConnections(t *testing.T) {
	t.Run("lists leave none open, so that at rest there is one, which never carried a list", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "connections")
		e := m.join(t)
		m.deploy(t, m.name+"-app")
		e.has(t, m.name+"-app", soon)
		eventually(t, soon, func() error {
			if accepted, open := m.link.count(); accepted < 2 || open != 1 {
				return fmt.Errorf("%d connections were made and %d are open", accepted, open)
			}
			return nil
		})
		m.goesOn(t, e)
	})
}
