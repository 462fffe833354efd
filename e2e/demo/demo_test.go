// Package demo tests cmd/demo: on processes, and with -environment kind on containers.
package demo

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/environment/kind"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
)

var (
	environmentFlag = flag.String("environment", "kwok", "where the demo runs: kwok or kind, which needs a Docker engine and the images (make kind-images)")
	imageFlag       = flag.String("image", "localhost/fleetwright:dev", "the operator's image, on kind")
)

// The demo is tested as users run it: as a program, whose processes outlive it. It has one member,
// to be fast, and no home directory.
func TestDemo(t *testing.T) {
	d := buildDemo(t, "kwok")
	runSteps(t, []step{
		{"starts beside programs that listen on the ports it prefers", d.testStart},
		{"shows an image that does not exist, as it suggests, and starts again with it", d.testMissingImage},
		{"continues after all of its processes were killed", d.testKilled},
		{"starts a controller manager that gave up", d.testControllerManager},
		{"adds a cluster when add was killed", d.testAddKilled},
		{"replaces a member whose port another program uses", d.testPortTaken},
		{"suggests commands that work, in the order of the list and in the reverse order", d.testSuggestions},
		{"leaves nothing behind", d.testDown},
	})
}

// On kind, the demo suggests the same. The other steps of TestDemo are about its processes.
func TestDemoOnKind(t *testing.T) {
	d := buildDemo(t, "kind")
	runSteps(t, []step{
		{"starts", d.testFirstStart},
		{"suggests commands that work, in the order of the list and in the reverse order", d.testSuggestions},
		{"leaves nothing behind", d.testDown},
	})
}

// step is a step of a test, which needs those before it.
type step struct {
	name string
	test func(*testing.T)
}

func runSteps(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		if !t.Run(s.name, s.test) {
			t.FailNow()
		}
	}
}

func (d *demoProcess) testStart(t *testing.T) {
	preferred, err := kwok.FreePorts(d.dir, 12)
	must(t, err)
	for _, port := range []int{preferred[0], preferred[2], preferred[3], preferred[9]} {
		occupy(t, port)
	}
	d.testFirstStart(t)
}

func (d *demoProcess) testFirstStart(t *testing.T) {
	d.suggestions = d.run(t, "up")
	app := d.awaitReady(t, "north")
	if app.Status.Summary.Display != "1/1" {
		t.Errorf("want 1/1 clusters, got %s", app.Status.Summary.Display)
	}
	d.checkContexts(t, "hub", "north")
}

func (d *demoProcess) testMissingImage(t *testing.T) {
	d.runSuggestion(t, `"image":"nginx:doesnotexist"`)
	var status string
	await(t, "status to show ImagePullBackOff", func(context.Context) error {
		// It exits with status 3, because the AppService is not Ready.
		output, err := d.command("bin/kubectl-appsvc", "status", "web").CombinedOutput()
		if status = string(output); !strings.Contains(status, `ImagePullBackOff: 1 of 4 pods: container app: image "nginx:doesnotexist"`) {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
	if want := "3/3 pods"; !strings.Contains(status, want) {
		t.Errorf("want the old pods to be ready, got %s", status)
	}
	if output, want := d.run(t, "up"), "it is not Ready"; !strings.Contains(output, want) {
		t.Errorf("want %q, got %s", want, output)
	}
	d.runSuggestion(t, "rollout undo")
	d.awaitReady(t, "north")
}

// After a reboot, no process runs, and the files with process IDs name other programs.
func (d *demoProcess) testKilled(t *testing.T) {
	earlier := d.app(t)
	operator, err := d.env.Operator()
	must(t, err)
	must(t, operator.Kill(t.Context()))
	clusters, err := d.env.Clusters()
	must(t, err)
	for _, cluster := range clusters {
		must(t, cluster.Stop(t.Context()))
		for _, component := range components {
			must(t, os.WriteFile(d.pidFile(cluster.Name(), component), []byte(strconv.Itoa(os.Getpid())), 0o600))
		}
	}
	d.run(t, "up")
	if app := d.awaitReady(t, "north"); app.UID != earlier.UID {
		t.Error("the AppService is not that of the earlier run")
	}
}

func (d *demoProcess) testControllerManager(t *testing.T) {
	must(t, syscall.Kill(d.pid(t, "north", "kube-controller-manager"), syscall.SIGKILL))
	cluster := d.cluster(t, "north")
	await(t, "the controller manager to be gone", func(ctx context.Context) error {
		if cluster.Ready(ctx) == nil {
			return errors.New("the cluster is ready")
		}
		return nil
	})
	d.run(t, "start", "north")
	must(t, cluster.Ready(t.Context()))
}

// The demo is killed while kwokctl creates the cluster. kwokctl would start components later.
func (d *demoProcess) testAddKilled(t *testing.T) {
	west := filepath.Join(d.dir, "clusters", "west")
	kwokctl := d.runAndKill(t, filepath.Join(west, "pki", "ca.crt"), "add", "west")
	if output, want := d.run(t, "start", "west"), "It is not in the fleet. To join it: "; !strings.Contains(output, want) {
		t.Errorf("want %q, got %s", want, output)
	}
	// The exit status of ps is 1 if there is no such process. Z is a process that has exited.
	if state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(kwokctl)).Output(); err == nil && !strings.HasPrefix(string(state), "Z") {
		t.Errorf("the kwokctl of the killed demo still exists: %s", state)
	}
	d.run(t, "add", "west")
	d.awaitReady(t, "north", "west")
	var want []string
	for _, component := range components {
		want = append(want, filepath.Join(west, "bin", component))
	}
	if got := programsIn(t, west); !slices.Equal(got, want) {
		t.Errorf("want the processes %v, got %v", want, got)
	}
	must(t, d.cluster(t, "west").Ready(t.Context()))
}

func (d *demoProcess) testPortTaken(t *testing.T) {
	earlier := d.port(t, "west")
	d.run(t, "stop", "west")
	occupy(t, earlier)
	output := d.run(t, "start", "west")
	if want := fmt.Sprintf("start kube-apiserver on port %d: the port is used by another program", earlier); !strings.Contains(output, want) {
		t.Errorf("want %q, got %s", want, output)
	}
	if d.port(t, "west") == earlier {
		t.Error("the cluster has the same port")
	}
	west, err := environment.NewClient(d.cluster(t, "west").Kubeconfig())
	must(t, err)
	await(t, "the AppService to be delivered to the new cluster", func(ctx context.Context) error {
		return west.Get(ctx, sampleKey, &appsv1.Deployment{})
	})
	d.awaitReady(t, "north", "west")
}

func (d *demoProcess) testDown(t *testing.T) {
	d.run(t, "down")
	if left, err := d.env.Clusters(); len(left) > 0 || err != nil {
		t.Errorf("%d clusters exist: %v", len(left), err)
	}
	if got := programsIn(t, d.dir); len(got) > 0 {
		t.Errorf("want no processes, got %v", got)
	}
	entries, err := os.ReadDir(d.dir)
	must(t, err)
	if len(entries) > 0 {
		t.Errorf("want an empty directory, got %v", entries)
	}
	if _, err := os.Stat(filepath.Join(root, ".kube")); err == nil {
		t.Error("kubectl has written .kube into the working directory")
	}
}

// components are the programs of a cluster, sorted.
var components = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok-controller"}

// demoProcess runs the program.
type demoProcess struct {
	program, dir string
	env          environment.Environment
	// on is the kind of environment. target is the target of make that starts the demo there.
	on, target string
	// podLog is a text in the log of each pod.
	podLog string
	// suggestions is what the first start printed.
	suggestions string
}

const root = "../.."

// hubName and sampleKey are names of the demo.
const hubName = "hub"

var sampleKey = client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "web"}

// buildDemo returns a demo of an environment, or skips the test if another one is to be tested.
func buildDemo(t *testing.T, on string) *demoProcess {
	t.Helper()
	if on != *environmentFlag {
		t.Skipf("go test ./e2e/demo -environment %s runs it", on)
	}
	d := &demoProcess{program: filepath.Join(t.TempDir(), "demo"), dir: filepath.Join(t.TempDir(), "files"), on: on, target: "demo", podLog: kwok.PodLog}
	if output, err := exec.Command("go", "build", "-o", d.program, "../../cmd/demo").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	var err error
	if on == "kwok" {
		d.env, err = kwok.New(kwok.Options{Dir: d.dir, Bin: filepath.Join(root, "bin"), Config: filepath.Join(root, "config")})
	} else {
		d.target, d.podLog = "kind-demo", "hello: listening"
		d.env, err = kind.New(kind.Options{Dir: d.dir, Root: root, Image: *imageFlag})
	}
	must(t, err)
	t.Cleanup(func() {
		if err := d.env.Clean(context.Background()); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return d
}

// command returns a command in the root of the repository, without a home directory.
func (d *demoProcess) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = root
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "HOME=") || strings.HasPrefix(v, "XDG_")
	})
	cmd.Env = append(cmd.Env, "KUBECONFIG="+filepath.Join(d.dir, "hub.kubeconfig"))
	if program != d.program {
		cmd.Env = append(cmd.Env, "KUBECACHEDIR="+filepath.Join(d.dir, ".kube"))
	}
	return cmd
}

func (d *demoProcess) demo(args ...string) *exec.Cmd {
	return d.command(d.program, append([]string{"-environment", d.on, "-image", *imageFlag, "-dir", d.dir, "-members", "north"}, args...)...)
}

// run runs a command of the demo and returns its output.
func (d *demoProcess) run(t *testing.T, args ...string) string {
	t.Helper()
	start := time.Now()
	output, err := d.demo(args...).CombinedOutput()
	t.Logf("demo %s (%s):\n%s", strings.Join(args, " "), time.Since(start).Round(100*time.Millisecond), output)
	must(t, err)
	return string(output)
}

// runAndKill starts a command of the demo, and kills it when the file exists. It returns the process
// of kwokctl, which does not continue until it is killed, too.
func (d *demoProcess) runAndKill(t *testing.T, file string, args ...string) (kwokctl int) {
	t.Helper()
	cmd := d.demo(args...)
	must(t, cmd.Start())
	await(t, file+" to exist", func(context.Context) error {
		_, err := os.Stat(file)
		return err
	})
	child, err := exec.Command("pgrep", "-P", strconv.Itoa(cmd.Process.Pid)).Output()
	must(t, err)
	kwokctl, err = strconv.Atoi(strings.TrimSpace(string(child)))
	must(t, err)
	must(t, syscall.Kill(kwokctl, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(kwokctl, syscall.SIGKILL) })
	must(t, cmd.Process.Kill())
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("demo %s ended before it was killed: %v", strings.Join(args, " "), err)
	}
	return kwokctl
}

// runSuggestion runs the line with this text of what the first start printed.
func (d *demoProcess) runSuggestion(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(d.suggestions) {
		if !strings.Contains(line, text) {
			continue
		}
		output, err := d.command("bash", "-c", line).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, output)
		}
		return
	}
	t.Fatalf("no suggestion contains %q", text)
}

func (d *demoProcess) cluster(t *testing.T, name string) environment.Cluster {
	t.Helper()
	clusters, err := d.env.Clusters()
	must(t, err)
	i := slices.IndexFunc(clusters, func(c environment.Cluster) bool { return c.Name() == name })
	if i < 0 {
		t.Fatalf("there is no cluster %s", name)
	}
	return clusters[i]
}

func (d *demoProcess) hub(t *testing.T) client.Client {
	t.Helper()
	hub, err := environment.NewClient(d.cluster(t, hubName).Kubeconfig())
	must(t, err)
	return hub
}

func (d *demoProcess) app(t *testing.T) *v1alpha1.AppService {
	t.Helper()
	app := &v1alpha1.AppService{}
	must(t, d.hub(t).Get(t.Context(), sampleKey, app))
	return app
}

// awaitReady waits until the sample is ready on exactly these members, and returns it.
func (d *demoProcess) awaitReady(t *testing.T, members ...string) *v1alpha1.AppService {
	t.Helper()
	hub, app := d.hub(t), &v1alpha1.AppService{}
	await(t, "AppService web to be ready on "+strings.Join(members, ", "), func(ctx context.Context) error {
		if err := hub.Get(ctx, sampleKey, app); err != nil {
			return err
		}
		var ready []string
		for _, c := range app.Status.Clusters {
			if c.Phase == v1alpha1.ClusterReady {
				ready = append(ready, c.Name)
			}
		}
		if !slices.Equal(ready, members) || app.Status.ObservedGeneration != app.Generation {
			return fmt.Errorf("it is ready on %v: %+v", ready, app.Status.Conditions)
		}
		return nil
	})
	return app
}

func (d *demoProcess) pidFile(cluster, component string) string {
	return filepath.Join(d.dir, "clusters", cluster, "pids", component+".pid")
}

func (d *demoProcess) pid(t *testing.T, cluster, component string) int {
	t.Helper()
	content, err := os.ReadFile(d.pidFile(cluster, component))
	must(t, err)
	pid, err := strconv.Atoi(string(content))
	must(t, err)
	return pid
}

var serverPort = regexp.MustCompile(`server: https://127\.0\.0\.1:(\d+)`)

// port returns the port of a cluster's API server.
func (d *demoProcess) port(t *testing.T, cluster string) int {
	t.Helper()
	match := serverPort.FindSubmatch(d.cluster(t, cluster).Kubeconfig())
	if match == nil {
		t.Fatalf("the kubeconfig of cluster %s names no port", cluster)
	}
	port, err := strconv.Atoi(string(match[1]))
	must(t, err)
	return port
}

// programsIn returns the programs of the processes whose program is in the directory.
func programsIn(t *testing.T, dir string) []string {
	t.Helper()
	output, err := exec.Command("ps", "-A", "-ww", "-o", "args=").Output()
	must(t, err)
	var found []string
	for line := range bytes.Lines(output) {
		if program, _, _ := strings.Cut(string(line), " "); strings.HasPrefix(program, dir+"/") {
			found = append(found, program)
		}
	}
	slices.Sort(found)
	return found
}

// occupy listens on a port until the test ends.
func occupy(t *testing.T, port int) {
	t.Helper()
	// A killed program may still be closing the port.
	await(t, "port "+strconv.Itoa(port)+" to be free", func(ctx context.Context) error {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = listener.Close() })
		return nil
	})
}

func await(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	must(t, environment.Await(t.Context(), time.Minute, what, check))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
