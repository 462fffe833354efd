package kubeconfig

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs/kubeconfig.md lists exactly these inputs, each with its outcome.
func TestHostile_inputs_are_documented(t *testing.T) {
	kubeconfigs, argoCD := map[string]string{}, map[string]string{}
	for _, table := range []map[string]testInput{rejectedKubeconfigs(t), hostileKubeconfigs(t)} {
		for name, test := range table {
			kubeconfigs[name] = test.want
		}
	}
	for name := range acceptedKubeconfigs(t) {
		kubeconfigs[name] = accepted
	}
	for name, test := range rejectedArgoCDs(t) {
		argoCD[name] = test.want
	}
	for name := range acceptedArgoCDs(t) {
		argoCD[name] = accepted
	}
	want := map[string]map[string]string{"A kubeconfig": kubeconfigs, "A cluster Secret of Argo CD": argoCD}
	got := reasonTables(t, "../../docs/kubeconfig.md")
	delete(got, "An address that is dialled") // see package transport
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/kubeconfig.md differs from the tests (-tests +document)\n%s", diff)
	}
}

// reasonTables returns the tables of a document whose last column is a reason: for each title of
// the first column, the reasons by input. The second column begins with "used" or "refused".
func reasonTables(t testing.TB, path string) map[string]map[string]string {
	t.Helper()
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]string{}
	var title string
	for line := range strings.Lines(string(document)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) != 3:
			title = ""
		case cells[2] == "reason":
			title = cells[0]
			all[title] = map[string]string{}
		case title == "" || strings.HasPrefix(cells[0], "---"):
		default:
			reason := strings.Trim(cells[2], "`")
			if happens, _, _ := strings.Cut(cells[1], " "); strings.Trim(happens, ":,;") != map[bool]string{true: "used", false: "refused"}[reason == accepted] {
				t.Errorf("%s: %s, and the reason is %s", cells[0], cells[1], reason)
			}
			if _, twice := all[title][cells[0]]; twice {
				t.Errorf("%s occurs twice", cells[0])
			}
			all[title][cells[0]] = reason
		}
	}
	return all
}
