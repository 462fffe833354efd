package install

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kindcluster "sigs.k8s.io/kind/pkg/cluster"

	"github.com/fleetwright/fleetwright/internal/document"
	"github.com/fleetwright/fleetwright/internal/environment/kind"
)

// section is the section of docs/install.md whose commands TestOwnKindClusters runs.
const section = "## With your own kind clusters"

// hubName and memberName are the clusters of the section. Their names are not those of a suite, which
// begin with fleetwright.
const hubName, memberName = "fleet-hub", "fleet-east"

// script is the commands of the section, in the order of the document.
type script struct {
	// install leads from nothing to an AppService.
	install []string
	// build and load make the image of a clone, and load it onto the hub's node.
	build, load string
	// after is what the section shows afterwards. The last one removes the clusters.
	after []string
}

func readSection(t *testing.T) script {
	t.Helper()
	blocks, err := document.Section(filepath.Join(root, "docs", "install.md"), section)
	if err != nil {
		t.Fatal(err)
	}
	var commands [][]string
	for _, block := range blocks {
		commands = append(commands, document.Commands(block.Text))
	}
	if len(commands) < 3 || len(commands[0]) != 5 || len(commands[1]) != 2 {
		t.Fatalf("want five commands, then two for a clone, then others, got %q", commands)
	}
	return script{install: commands[0], build: commands[1][0], load: commands[1][1], after: slices.Concat(commands[2:]...)}
}

// This needs no kind, so that an edit of the document fails early.
func TestSectionHasTheCommands(t *testing.T) { readSection(t) }

// TestOwnKindClusters runs the commands of docs/install.md for kind word for word, with the image of
// this clone, which the document has for the time before the first release.
//
// Two things differ from the machine of a user, because no registry can be reached here: the program
// kind is that of go.mod, which gets --image for the node image if it is not kind's own; and the member's
// node has our web server under the name of the image in the document.
func TestOwnKindClusters(t *testing.T) {
	needKind(t)
	commands := readSection(t)
	user := newUser(t)
	user.run(t, root, commands.build)
	for i, command := range commands.install {
		user.run(t, filepath.Join(root, "dist"), command)
		if strings.HasPrefix(command, "kind create ") && !strings.HasPrefix(commands.install[i+1], "kind create ") {
			user.run(t, root, commands.load)
			user.provideImage(t, commands.install)
		}
	}
	for _, command := range commands.after {
		output := user.run(t, root, command)
		switch {
		case strings.Contains(command, "--internal"):
			address := regexp.MustCompile(`https://\S+`).FindString(output)
			if address == "" || !strings.Contains(strings.Join(commands.install, "\n"), "--member-server "+address) {
				t.Errorf("join is called with another address than %q", output)
			}
		case strings.Contains(command, " status "):
			if !strings.Contains(output, "Ready") {
				t.Errorf("the AppService is not Ready:\n%s", output)
			}
		case strings.Contains(command, " get deployments"):
			if !strings.Contains(output, "deployment.apps/web") || !strings.Contains(output, "Running") {
				t.Errorf("nothing runs on the member:\n%s", output)
			}
		}
	}
	if left := env.document.existing(t); len(left) > 0 {
		t.Errorf("the last command leaves %v", left)
	}
}

// user has the programs, the files and the variables of a user.
type user struct{ variables []string }

// newUser returns a user with a kubeconfig and a program kind of its own, and takes the names of the
// clusters.
func newUser(t *testing.T) user {
	t.Helper()
	image, err := kind.NodeImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	u := user{variables: []string{"KUBECONFIG=" + filepath.Join(home, "kubeconfig"), "PATH=" + home + ":" + bin + ":" + os.Getenv("PATH")}}
	u.run(t, root, "go build -o "+filepath.Join(home, "own", "kind")+" sigs.k8s.io/kind")
	program := "#!/bin/sh\n[ \"$1 $2\" != 'create cluster' ] || set -- \"$@\" --image " + image + "\nexec " + filepath.Join(home, "own", "kind") + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(home, "kind"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	env.document.take(t)
	if err := env.PrepareMachine(t.Context()); err != nil {
		t.Fatal(err)
	}
	return u
}

// run runs a command in a directory, which must succeed, and returns both outputs.
func (u user) run(t *testing.T, directory, command string) string {
	t.Helper()
	start := time.Now()
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command)
	shell.Dir = directory
	// The make of a command is no part of the make that runs the tests.
	shell.Env = append(os.Environ(), append(u.variables, "MAKEFLAGS=", "MAKELEVEL=")...)
	output, err := shell.CombinedOutput()
	t.Logf("%s: $ %s\n%s", time.Since(start).Round(100*time.Millisecond), command, output)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return string(output)
}

// provideImage loads our web server onto the member's node under the name of the AppService's image.
func (u user) provideImage(t *testing.T, commands []string) {
	t.Helper()
	image := regexp.MustCompile(`(?m)^ +image: (\S+)$`).FindStringSubmatch(strings.Join(commands, "\n"))
	if image == nil {
		t.Fatalf("no command has an image: %q", commands)
	}
	u.run(t, root, "kind load docker-image "+kind.Workload+" --name "+memberName)
	u.run(t, root, fmt.Sprintf("docker exec %s-control-plane ctr --namespace=k8s.io images tag --force %s docker.io/library/%s", memberName, kind.Workload, image[1]))
}

// documentedClusters are the kind clusters of the document.
type documentedClusters struct {
	mu sync.Mutex
	// isOurs is true when this process creates them. Until then, clusters of these names belong to
	// somebody else.
	isOurs bool
}

// take makes the names those of this process. It fails the test if there are clusters of these names:
// somebody may have created them by the document.
func (d *documentedClusters) take(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if taken := d.existing(t); len(taken) > 0 {
		t.Fatalf("there are kind clusters %[1]v already: if nobody needs them, kind delete clusters %[1]v", taken)
	}
	d.isOurs = true
}

// existing returns those of the clusters that exist.
func (d *documentedClusters) existing(t *testing.T) []string {
	t.Helper()
	all, err := kindcluster.NewProvider(kindcluster.ProviderWithDocker()).List()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(name string) bool { return name != hubName && name != memberName })
}

// delete removes the clusters that this process has created, in any state.
func (d *documentedClusters) delete() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.isOurs {
		return nil
	}
	provider := kindcluster.NewProvider(kindcluster.ProviderWithDocker())
	nowhere := filepath.Join(os.TempDir(), "no-kubeconfig") // without a path, kind would edit that of the user
	return errors.Join(provider.Delete(hubName, nowhere), provider.Delete(memberName, nowhere))
}
