package delivery

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// readOnlyConfig returns a config that may list and watch the delivered kinds, and nothing else.
func readOnlyConfig(s *setup) *rest.Config {
	s.Helper()
	config, err := onMember.user(s.Context(), s.cluster, []rbacv1.PolicyRule{{
		APIGroups: []string{"", "apps"},
		Resources: []string{"deployments", "services"},
		Verbs:     []string{"get", "list", "watch"},
	}})
	s.must(err)
	return config
}

// A refusal is reported in the entry, with the member's message, and retried in minutes.
func TestRefusal_is_reported_and_retried_in_minutes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spec  func(*v1alpha1.AppService)
		given func(*setup)
		entry func(*v1alpha1.ClusterStatus)
		want  string // part of the message
	}{
		"of a write without permission": {
			given: func(s *setup) { s.config = readOnlyConfig(s) },
			want:  `cannot patch resource "deployments" in API group "apps"`,
		},
		"of a deletion without permission": {
			given: func(s *setup) {
				s.start()
				s.plan()
				s.expectReport(s.ready())
				s.end()
				s.config = readOnlyConfig(s)
			},
			entry: withPhase(v1alpha1.ClusterRemoving),
			want:  `cannot delete resource "deployments" in API group "apps"`,
		},
		"of a node port out of range": {
			spec: func(app *v1alpha1.AppService) { app.Spec.Ports[0].NodePort = 99 },
			want: "apply Service: Service \"web\" is invalid: spec.ports[0].nodePort: Invalid value: 99: provided port is not in the valid range",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, func(app *v1alpha1.AppService) {
				if test.spec != nil {
					test.spec(app)
				}
			})
			if test.given != nil {
				test.given(s)
			}
			s.start()
			if test.entry == nil {
				test.entry = func(*v1alpha1.ClusterStatus) {}
			}
			s.plan(test.entry)
			wait.Eventually(t, func() error {
				seen := s.reported.last(s.key(), s.cluster)
				phase := s.app.Status.Cluster(s.cluster).Phase
				if phase == v1alpha1.ClusterPending {
					phase = v1alpha1.ClusterFailed
				}
				if seen.Phase != phase || seen.Reason != v1alpha1.ReasonRefused || !strings.Contains(seen.Message, test.want) {
					return fmt.Errorf("reported %+v, want %s, Refused, %s", seen, phase, test.want)
				}
				return nil
			})
			_, result, err := s.reconcileOnce()
			s.must(err)
			if want := (reconcile.Result{RequeueAfter: blockerRetry}); result != want {
				t.Errorf("got %+v, want %+v", result, want)
			}
		})
	}
}

func TestDelivery_waits_for_a_terminating_namespace(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}
	s.must(onMember.Create(t.Context(), namespace))
	s.must(onMember.Delete(t.Context(), namespace)) // no controller here finalizes the namespace
	s.start()
	s.plan()
	want := s.failed(v1alpha1.ReasonNamespaceTerminating, "the member is deleting the namespace; Fleetwright creates it again afterwards")
	want.Phase = v1alpha1.ClusterProgressing
	s.expectReport(want)
	s.expectNoRequests(t, "POST namespaces")
}

// A transient failure is reported too. It is retried by the queue, or when the member asks for a
// retry.
func TestTransient_failure_is_reported_and_retried(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer     func(string) (*http.Response, error)
		want       string
		retryAfter time.Duration // by the queue if 0
	}{
		"an error of the server": {
			answer: refuse("PATCH", 500, "etcd is full"),
			want:   "apply Deployment: etcd is full",
		},
		"too many requests": {
			answer:     refuse("PATCH", 429, "slow down"),
			want:       "apply Deployment: slow down",
			retryAfter: 7 * time.Second,
		},
		"a lost connection": {
			answer: func(request string) (*http.Response, error) {
				if strings.HasPrefix(request, "PATCH") {
					return nil, errors.New("connection\x1b[31m\nreset")
				}
				return nil, nil
			},
			want: "the request failed: the connection was lost",
		},
		"a long message": {
			answer: refuse("PATCH", 500, strings.Repeat("é", 5000)),
			want:   "é…",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			s.sent.answers(test.answer)
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
			s.plan()
			wait.Eventually(t, func() error {
				seen := s.reported.last(s.key(), s.cluster)
				if seen.Phase != v1alpha1.ClusterProgressing || seen.Reason != v1alpha1.ReasonApplyFailed || !strings.Contains(seen.Message, test.want) || len(seen.Message) > 1024 {
					return fmt.Errorf("reported %+v, want Progressing, ApplyFailed, %s", seen, test.want)
				}
				return nil
			})
			_, result, err := s.reconcileOnce()
			if result.RequeueAfter != test.retryAfter || (err == nil) != (test.retryAfter > 0) {
				t.Errorf("got %+v, %v, want a requeue after %v", result, err, test.retryAfter)
			}
			s.sent.answers(nil)
			if test.retryAfter == 0 {
				s.expectReport(s.ready())
			}
		})
	}
}

// fenced is the error of a request that this replica may not send at the moment.
type fenced struct{}

func (fenced) Error() string { return "fenced" }

func (fenced) Fenced() bool { return true }

// Invariant 7: a closed fence is not a failure of the member.
func TestClosedFence_is_not_reported_for_the_member(t *testing.T) {
	t.Parallel()
	shut := func(write string) func(string) (*http.Response, error) {
		return func(request string) (*http.Response, error) {
			if strings.HasPrefix(request, write) {
				return nil, fenced{}
			}
			return nil, nil
		}
	}
	for write, entry := range map[string]func(*v1alpha1.ClusterStatus){
		"PATCH deployments/web":  withPhase(v1alpha1.ClusterPending),
		"DELETE deployments/web": withPhase(v1alpha1.ClusterRemoving),
	} {
		t.Run(write, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			failed := func() float64 {
				var metric dto.Metric
				s.must(applies.WithLabelValues(s.cluster, "failed").Write(&metric))
				return metric.GetCounter().GetValue()
			}
			before := failed()
			s.sent.answers(shut(write))
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
			s.plan(entry)
			wait.Eventually(t, func() error {
				if n := s.sent.count(write); n < 2 {
					return fmt.Errorf("tried %d times", n)
				}
				return nil
			})
			seen, _, err := s.reconcileOnce()
			if err == nil {
				t.Error("it is not retried")
			}
			for _, seen := range append(s.reported.all(s.key(), s.cluster), seen) {
				if seen.Reason == v1alpha1.ReasonApplyFailed {
					t.Errorf("reported %+v", seen)
				}
			}
			if n := failed() - before; n > 0 {
				t.Errorf("counted %v that failed", n)
			}
			s.sent.answers(nil)
			if write == "PATCH deployments/web" {
				s.expectReport(s.ready())
			} else {
				s.expectReport(s.removing(s.confirmed))
			}
		})
	}
}

// Invariant 8: after a crash between two requests, the next operator only completes the delivery.
func TestDelivery_continues_after_a_crash(t *testing.T) {
	t.Parallel()
	s := startedSetup(t)
	s.sent.answers(refuse("PATCH services/web", 500, "crashed"))
	s.plan()
	wait.Eventually(t, func() error {
		if !slices.Contains(s.sent.all(), "PATCH services/web") {
			return errors.New("the Service was not applied yet")
		}
		return nil
	})
	s.restart()
	s.expectReport(s.ready())
	if diff := cmp.Diff([]string{"PATCH services/web"}, s.sent.writes()); diff != "" {
		t.Errorf("sent after the crash (-want +got):\n%s", diff)
	}
}

func TestSanitize(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, want string }{
		"plain text":                    {"as they are: é “x”", "as they are: é “x”"},
		"lines":                         {"a\nb\tc\r\n", "a b c  "},
		"colours":                       {"\x1b[1;31mred\x1b[0m", "red"},
		"an incomplete escape sequence": {"\x1b[31", " [31"},
		"a bidirectional override":      {"a\u202eb", "a b"},
		"invalid UTF-8":                 {"\xff\xfe", "��"},
		"the longest message":           {strings.Repeat("a", maxMessage), strings.Repeat("a", maxMessage)},
		"a longer message":              {strings.Repeat("a", maxMessage+1), strings.Repeat("a", maxMessage) + "…"},
		"a longer message, cut within a character": {"a" + strings.Repeat("é", maxMessage), "a" + strings.Repeat("é", maxMessage/2-1) + "…"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, sanitize(test.text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
