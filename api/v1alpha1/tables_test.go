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

// unchecked is the text that the API server adds if the schema refuses an object before the rules.
const unchecked = ", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]"

// accepted is an AppService that the API server accepts.
type accepted struct {
	name string // web by default
	spec string
	want string // the spec that is stored; as written by default. Its policies are the defaults unless it names them.
}

func testAccepted(t *testing.T, tests map[string]accepted) {
	t.Helper()
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if test.name == "" {
				test.name = "web"
			}
			if test.want == "" {
				test.want = test.spec
			}
			want := parseYAML(t, test.want)
			for field, standard := range map[string]string{"conflictPolicy": "Fail", "deletionPolicy": "Delete"} {
				if want[field] == nil {
					want[field] = standard
				}
			}
			got, err := dryRunCreate(t, newManifest(t, test.name, test.spec))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(asYAML(t, want), asYAML(t, got.Object["spec"])); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			checkRoundTrip(t, got.Object)
			// Without this default, kstatus would report Current before the first reconcile.
			if diff := cmp.Diff(asYAML(t, map[string]any{"observedGeneration": -1}), asYAML(t, got.Object["status"])); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// checkRoundTrip checks that the Go types have all stored fields: a client that reads and writes an
// AppService loses no field.
func checkRoundTrip(t *testing.T, stored map[string]any) {
	t.Helper()
	app := &v1alpha1.AppService{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(stored, app, true); err != nil {
		t.Fatal(err)
	}
	again, err := runtime.DefaultUnstructuredConverter.ToUnstructured(app)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asYAML(t, dropEmpty(stored["spec"])), asYAML(t, dropEmpty(again["spec"]))); diff != "" {
		t.Errorf("spec (-stored +read and written):\n%s", diff)
	}
}

// dropEmpty removes empty values, which are equivalent to missing ones.
func dropEmpty(value any) any {
	switch value := value.(type) {
	case map[string]any:
		full := map[string]any{}
		for key, inner := range value {
			if quantities, are := inner.(map[string]any); are && (key == "requests" || key == "limits") {
				inner = canonicalQuantities(quantities)
			}
			if inner = dropEmpty(inner); inner != nil && inner != "" && inner != false {
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
			full = append(full, dropEmpty(inner))
		}
		return full
	}
	return value
}

// canonicalQuantities formats quantities as a client does.
func canonicalQuantities(quantities map[string]any) map[string]any {
	written := map[string]any{}
	for name, quantity := range quantities {
		parsed := resource.MustParse(fmt.Sprint(quantity))
		written[name] = parsed.String()
	}
	return written
}

// refused is an AppService that the API server refuses.
type refused struct {
	name string // web by default
	spec string
	want string // the error message
}

func testRefused(t *testing.T, tests map[string]refused) {
	t.Helper()
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if test.name == "" {
				test.name = "web"
			}
			_, err := dryRunCreate(t, newManifest(t, test.name, test.spec))
			if err == nil {
				t.Fatal("the object is accepted")
			}
			checkMessage(t, strings.TrimPrefix(err.Error(), fmt.Sprintf("AppService.fleetwright.dev %q is invalid: ", test.name)), test.want)
		})
	}
}

// checkMessage compares the error message of a refused object. With Kubernetes 1.36, the text must
// be equal. Older versions format the refused value in another way and leave out some checks of
// formats, so these parts are ignored.
func checkMessage(t *testing.T, got, want string) {
	t.Helper()
	if serverIsOlder {
		got, want = withoutValues(got), withoutValues(want)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

var (
	values  = regexp.MustCompile(`(Invalid value|Duplicate value): (map\[string\]interface \{\})?("([^"\\]|\\.)*"|-?[0-9]+|null|\{[^}]*\})(: |, |$)`)
	formats = regexp.MustCompile(`<nil>: Invalid value: "": Checked value must be of type [^,]*, `)
)

func withoutValues(refusal string) string {
	return values.ReplaceAllString(strings.Trim(formats.ReplaceAllString(refusal, ""), "[]"), "$1: ")
}
