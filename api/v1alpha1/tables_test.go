package v1alpha1_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// unchecked is what the API server adds when the schema already refuses an object, so that no rule was asked.
const unchecked = ", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]"

// accepted is an AppService that the API server takes.
type accepted struct {
	name string // web by default
	spec string
	want string // the spec that is stored; as written by default. Its policies are the defaults unless it names them.
}

func accepts(t *testing.T, tests map[string]accepted) {
	t.Helper()
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if test.name == "" {
				test.name = "web"
			}
			if test.want == "" {
				test.want = test.spec
			}
			want := parse(t, test.want)
			for field, standard := range map[string]string{"conflictPolicy": "Fail", "deletionPolicy": "Delete"} {
				if want[field] == nil {
					want[field] = standard
				}
			}
			got, err := tried(t, manifest(t, test.name, test.spec))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(document(t, want), document(t, got.Object["spec"])); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			survives(t, got.Object)
			// Without it kstatus would call an AppService that nobody has looked at yet Current.
			if diff := cmp.Diff(document(t, map[string]any{"observedGeneration": -1}), document(t, got.Object["status"])); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// survives checks that what the API server stores is all in the Go types: a client that reads and writes an AppService loses nothing of it.
func survives(t *testing.T, stored map[string]any) {
	t.Helper()
	app := &v1alpha1.AppService{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(stored, app, true); err != nil {
		t.Fatal(err)
	}
	again, err := runtime.DefaultUnstructuredConverter.ToUnstructured(app)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(document(t, dense(stored["spec"])), document(t, dense(again["spec"]))); diff != "" {
		t.Errorf("spec (-stored +read and written):\n%s", diff)
	}
}

// dense leaves out what is empty, which says the same as what is absent.
func dense(value any) any {
	switch value := value.(type) {
	case map[string]any:
		full := map[string]any{}
		for key, inner := range value {
			if quantities, are := inner.(map[string]any); are && (key == "requests" || key == "limits") {
				inner = canonical(quantities)
			}
			if inner = dense(inner); inner != nil && inner != "" && inner != false {
				full[key] = inner
			}
		}
		return full
	case []any:
		if len(value) == 0 {
			return nil
		}
		full := make([]any, 0, len(value))
		for _, inner := range value {
			full = append(full, dense(inner))
		}
		return full
	}
	return value
}

// canonical writes quantities in the one way in which a client does.
func canonical(quantities map[string]any) map[string]any {
	written := map[string]any{}
	for name, quantity := range quantities {
		parsed := resource.MustParse(fmt.Sprint(quantity))
		written[name] = parsed.String()
	}
	return written
}

// refused is an AppService that the API server does not take.
type refused struct {
	name string // web by default
	spec string
	want string // what is said of it
}

func refuses(t *testing.T, tests map[string]refused) {
	t.Helper()
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if test.name == "" {
				test.name = "web"
			}
			_, err := tried(t, manifest(t, test.name, test.spec))
			if err == nil {
				t.Fatal("is accepted")
			}
			says(t, strings.TrimPrefix(err.Error(), fmt.Sprintf("AppService.fleetwright.dev %q is invalid: ", test.name)), test.want)
		})
	}
}

// says compares what is said of a refused object: to the letter with Kubernetes 1.36. Older ones name the type of a value that a rule refuses, or
// write it as Go does, and leave out some checks of formats that others repeat; of those all else is compared: the fields, what they are refused for, and our words.
func says(t *testing.T, got, want string) {
	t.Helper()
	if older {
		got, want = withoutValues(got), withoutValues(want)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

var (
	values  = regexp.MustCompile(`(Invalid value|Duplicate value): (map\[string\]interface \{\})?("([^"\\]|\\.)*"|-?[0-9]+|null|\{[^}]*\})(: |$)`)
	formats = regexp.MustCompile(`<nil>: Invalid value: "": Checked value must be of type [^,]*, `)
)

func withoutValues(refusal string) string {
	return values.ReplaceAllString(strings.Trim(formats.ReplaceAllString(refusal, ""), "[]"), "$1: ")
}
