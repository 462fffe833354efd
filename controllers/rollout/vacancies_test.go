package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// newOneStage returns a fleet with this many clusters in one stage, which has completed revision 1.
func newOneStage(t *testing.T, clusters, maxUnavailable int) *scenario {
	s := newFirstRollout(t, func(r *v1alpha1.Rollout) {
		r.Stages, r.MaxUnavailable = nil, new(intstr.FromInt32(int32(maxUnavailable)))
	})
	clear(s.members)
	for i := range clusters {
		s.join(ClusterName(i), "world")
	}
	return s.settles(fmt.Sprintf("Completed 1, stable 1: (rest) Completed %[1]d/%[1]d", clusters))
}

// down returns how many clusters are not Ready.
func (s *scenario) down() int {
	n := 0
	for _, entry := range s.app.Status.Clusters {
		if entry.Phase != v1alpha1.ClusterReady {
			n++
		}
	}
	return n
}

// staysWithin lets time pass, and checks that no more clusters than this are not Ready.
func (s *scenario) staysWithin(most int, d time.Duration) {
	s.t.Helper()
	for range d / (10 * time.Second) {
		if s.passes(10 * time.Second); s.down() > most {
			s.t.Fatalf("%d clusters are not Ready, and %d may be:\n%s", s.down(), most, toText(s.app.Status))
		}
	}
}

func TestMaxUnavailable_after_an_edit_or_abort_in_the_middle_of_an_update(t *testing.T) {
	slow := func(t *testing.T, maxUnavailable int) *scenario {
		s := newOneStage(t, 6, maxUnavailable)
		for _, m := range s.members {
			m.startup = 100 * time.Second
		}
		return s.passes(100 * time.Second)
	}
	t.Run("edits", func(t *testing.T) {
		s := slow(t, 1)
		for i := range 5 {
			s.editImage(fmt.Sprintf("ok-%d", i+1))
			s.plan() // the members have not answered yet
			s.deliverAll()
			s.plan()
			s.staysWithin(1, 50*time.Second+time.Duration(i)*30*time.Second)
		}
		s.settles("Completed 6, stable 6: (rest) Completed 6/6")
	})
	t.Run("an edit from a revision that does not start", func(t *testing.T) {
		s := slow(t, 1).edited("bad").passes(30 * time.Second).edited("ok-1")
		s.staysWithin(1, time.Hour)
		s.is("Completed 3, stable 3: (rest) Completed 6/6")
	})
	t.Run("aborts right after an assignment", func(t *testing.T) {
		s := slow(t, 2)
		for i := range 3 {
			s.edited(fmt.Sprintf("ok-%d", i+1)).passes(170 * time.Second)
			s.annotate(v1alpha1.AnnotationAbort, fmt.Sprint(i+2))
			s.plan()
			s.staysWithin(2, 10*time.Minute)
		}
	})
	t.Run("an edit during a rollback", func(t *testing.T) {
		s := slow(t, 1).edited("ok-1").passes(170*time.Second).annotated(v1alpha1.AnnotationAbort, "2")
		s.staysWithin(1, 30*time.Second)
		s.editImage("ok-2")
		s.staysWithin(1, time.Hour)
		s.is("Completed 3, stable 3: (rest) Completed 6/6")
	})
}

// Clusters that are down already count, as in a Deployment. But dead clusters hold up no rollout.
func TestMaxUnavailable_counts_clusters_that_are_down(t *testing.T) {
	for dead := range 6 {
		t.Run(fmt.Sprintf("%d of 12", dead), func(t *testing.T) {
			s := newOneStage(t, 12, 3)
			for i := range dead {
				if name := ClusterName(2 * i); i%2 == 0 {
					s.cutOff(name)
				} else {
					s.members[name].sick = true
				}
			}
			s.passes(10 * time.Second).edited("ok-1")
			s.staysWithin(max(3, dead+1), 2*time.Hour)
			reached := 0
			for _, m := range s.members {
				if m.runs == 2 {
					reached++
				}
			}
			if want := 12 - (dead+1)/2; reached != want {
				t.Errorf("%d clusters run the revision, want %d\n%s", reached, want, toText(s.app.Status))
			}
		})
	}
}
