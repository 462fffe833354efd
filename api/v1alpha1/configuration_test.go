package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestConfiguration_is_accepted(t *testing.T) {
	testAccepted(t, map[string]accepted{
		"a name is enough": {
			spec: least + "configuration: [{kind: ConfigMap, name: settings}]",
		},
		"all fields": {
			spec: least + `
configuration:
- {kind: ConfigMap, name: settings, from: web.settings, update: InPlace, optional: true}
- {kind: Secret, name: settings, update: Versioned}
overrides:
- name: eu
  clusterNames: [east]
  configuration:
  - {kind: ConfigMap, name: settings, from: settings-eu}
  - {kind: Secret, name: settings, from: settings-eu}
`,
		},
		"two names of one object": {
			spec: least + "configuration: [{kind: ConfigMap, name: a, from: settings}, {kind: ConfigMap, name: b, from: settings}]",
		},
		"names as long as they may be": {
			spec: least + "configuration: [{kind: ConfigMap, name: " + strings.Repeat("a", 253) + ", from: " + strings.Repeat("b-", 126) + "c}]",
		},
		"an override of an item that does not exist concerns only its clusters": {
			spec: least + "overrides: [{name: eu, clusterNames: [east], configuration: [{kind: ConfigMap, name: settings, from: settings-eu}]}]",
		},
		"as many items as are allowed": {
			spec: least + "configuration: " + items(32, "") + "\noverrides: " + overridesOf(7, 32),
		},
	})
}

func TestConfiguration_is_refused_with_a_message(t *testing.T) {
	const label = " must have only lower-case letters, digits, '-' and '.', such as settings"
	tests := map[string]refused{
		"an item that is there twice": {
			spec: image + "configuration: [{kind: ConfigMap, name: a}, {kind: Secret, name: a}, {kind: ConfigMap, name: a}]",
			want: `spec.configuration[2]: Duplicate value: {"kind":"ConfigMap","name":"a"}`,
		},
		"no kind": {
			spec: image + "configuration: [{name: a}]",
			want: "[spec.configuration[0].kind: Required value" + unchecked,
		},
		"an unknown kind": {
			spec: image + "configuration: [{kind: Service, name: a}]",
			want: `[spec.configuration[0].kind: Unsupported value: "Service": supported values: "ConfigMap", "Secret"` + unchecked,
		},
		"no name": {
			spec: image + "configuration: [{kind: Secret}]",
			want: "[spec.configuration[0].name: Required value" + unchecked,
		},
		"an unknown update": {
			spec: image + "configuration: [{kind: Secret, name: a, update: Always}]",
			want: `[spec.configuration[0].update: Unsupported value: "Always": supported values: "Versioned", "InPlace"` + unchecked,
		},
		"a name that is too long": {
			spec: image + "configuration: [{kind: Secret, name: " + strings.Repeat("a", 254) + "}]",
			want: "[spec.configuration[0].name: Too long: may not be more than 253 bytes" + unchecked,
		},
		"too many items": {
			spec: image + "configuration: " + items(33, ""),
			want: "[spec.configuration: Too many: 33: must have at most 32 items" + unchecked,
		},
		"too many items with those of overrides": {
			spec: image + "configuration: [{kind: ConfigMap, name: a}]\noverrides: " + overridesOf(8, 32),
			want: "spec: Invalid value: configuration and overrides[].configuration must have at most 256 items together: divide the AppService",
		},
		"an override without another object": {
			spec: image + "overrides: [{name: eu, clusterNames: [east], configuration: [{kind: Secret, name: a}]}]",
			want: "[spec.overrides[0].configuration[0].from: Required value" + unchecked,
		},
		"an override that has an item twice": {
			spec: image + "overrides: [{name: eu, clusterNames: [east], configuration: [{kind: Secret, name: a, from: b}, {kind: Secret, name: a, from: c}]}]",
			want: `spec.overrides[0].configuration[1]: Duplicate value: {"kind":"Secret","name":"a"}`,
		},
	}
	for _, name := range []string{"", "A", "a_b", "-a", "a-", ".a", "a.", "a..b", "a.-b", "a-.b", "a b", "../a"} {
		tests[fmt.Sprintf("the name %q", name)] = refused{
			spec: image + fmt.Sprintf("configuration: [{kind: ConfigMap, name: %q}]", name),
			want: fmt.Sprintf("spec.configuration[0].name: Invalid value: %q: name", name) + label,
		}
		tests[fmt.Sprintf("from %q in an override", name)] = refused{
			spec: image + fmt.Sprintf("overrides: [{name: eu, clusterNames: [east], configuration: [{kind: Secret, name: a, from: %q}]}]", name),
			want: fmt.Sprintf("spec.overrides[0].configuration[0].from: Invalid value: %q: from", name) + label,
		}
		if name != "" {
			tests[fmt.Sprintf("from %q", name)] = refused{
				spec: image + fmt.Sprintf("configuration: [{kind: ConfigMap, name: a, from: %q}]", name),
				want: fmt.Sprintf("spec.configuration[0].from: Invalid value: %q: from", name) + label,
			}
		}
	}
	testRefused(t, tests)
}

// items returns a list of this many ConfigMaps, each with more fields.
func items(count int, more string) string {
	all := make([]string, count)
	for i := range all {
		all[i] = fmt.Sprintf("{kind: ConfigMap, name: settings-%d%s}", i, more)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// overridesOf returns a list of this many overrides, each with so many items.
func overridesOf(count, size int) string {
	all := make([]string, count)
	for i := range all {
		all[i] = fmt.Sprintf("{name: o%d, clusterNames: [east], configuration: %s}", i, items(size, ", from: other"))
	}
	return "[" + strings.Join(all, ", ") + "]"
}
