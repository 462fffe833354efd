package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/ui"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// TestPluginUI reads what the page of kubectl appsvc ui reads, while an operator runs and while
// clusters fail. Each step continues where the previous one ended, with the same stream.
func TestPluginUI(t *testing.T) {
	f := testFleet(t)
	page := f.openPage(t)

	app := f.createApp(t, "shown", framework.OnClusters("north", "south"))
	key := namespace + "/" + app.Name
	t.Run("an AppService becomes Ready", func(t *testing.T) {
		page.await(t, f, "AppService shown to be Ready on north and south", func(shown *shownFleet) error {
			if err := errors.Join(shown.checkPhase(key, "north", v1alpha1.ClusterReady), shown.checkPhase(key, "south", v1alpha1.ClusterReady)); err != nil {
				return err
			}
			if row := shown.apps[key]; row.Phase != v1alpha1.ClusterReady || row.Ready != 2 || row.Clusters != 2 || row.UpToDate != 2 || row.ReadyPods != 4 {
				return fmt.Errorf("the AppService is %+v", row)
			}
			return shown.checkHub()
		})
	})

	t.Run("a cluster that does not respond turns Unknown, and no other", func(t *testing.T) {
		t.Cleanup(func() { f.startCluster(t, "south") })
		if err := f.Members["south"].Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		page.await(t, f, "south to be Unknown", func(shown *shownFleet) error {
			if cluster := shown.clusters["south"]; cluster.Ready == "True" {
				return fmt.Errorf("the cluster is %+v", cluster)
			}
			if cell := shown.cell(key, "south"); cell.LastKnown != v1alpha1.ClusterReady || cell.Ready != 2 || cell.Since == nil {
				return fmt.Errorf("the cell is %+v, want the last known pods", cell)
			}
			return errors.Join(shown.checkPhase(key, "south", v1alpha1.ClusterUnknown), shown.checkPhase(key, "north", v1alpha1.ClusterReady))
		})
	})

	t.Run("a cluster that responds again is Ready", func(t *testing.T) {
		page.await(t, f, "south to be Ready", func(shown *shownFleet) error {
			if cluster := shown.clusters["south"]; cluster.Ready != "True" {
				return fmt.Errorf("the cluster is %+v", cluster)
			}
			return shown.checkPhase(key, "south", v1alpha1.ClusterReady)
		})
	})

	t.Run("an operator that stops, and another one that starts", func(t *testing.T) {
		t.Cleanup(func() { f.restartWith(t, 1) })
		if err := f.Operator.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		page.await(t, f, "the page to say that the operator does not run", func(shown *shownFleet) error {
			if problem := shown.hub.OperatorProblem; !strings.Contains(problem, "the operator has not renewed its Lease") {
				return fmt.Errorf("the operator has problem %q", problem)
			}
			return nil
		})
	})
	page.await(t, f, "the page to say that the operator runs", func(shown *shownFleet) error { return shown.checkHub() })

	t.Run("an AppService that is deleted", func(t *testing.T) {
		f.DeleteApp(t, app)
		page.await(t, f, "AppService shown to disappear", func(shown *shownFleet) error {
			if _, exists := shown.apps[key]; exists {
				return errors.New("it is still there")
			}
			return nil
		})
	})
}

// openedPage reads the stream of a running kubectl appsvc ui.
type openedPage struct {
	mu    sync.Mutex
	shown shownFleet
	// err is why the stream ended.
	err error
}

// shownFleet is what a page shows after the changes that it has read.
type shownFleet struct {
	hub      ui.Hub
	apps     map[string]ui.App
	clusters map[string]ui.Cluster
}

// openPage starts kubectl appsvc ui on a free port, and reads its stream until the test ends.
func (f *fleet) openPage(t *testing.T) *openedPage {
	t.Helper()
	address, token := f.startUI(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"api/stream", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET /api/stream: %s", response.Status)
	}
	page := &openedPage{shown: shownFleet{apps: map[string]ui.App{}, clusters: map[string]ui.Cluster{}}}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = response.Body.Close()
		<-done
	})
	go func() {
		defer close(done)
		page.read(bufio.NewReader(response.Body))
	}()
	return page
}

// startUI starts kubectl appsvc ui, which ends with the test, and returns the address of its page and
// its token.
func (f *fleet) startUI(t *testing.T) (address, token string) {
	t.Helper()
	bin, err := filepath.Abs(*binFlag)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(filepath.Join(bin, "kubectl"), "appsvc", "ui")
	command.Env = append(os.Environ(), "KUBECONFIG="+contextsOf(t, f.Hub), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	errOut := &bytes.Buffer{}
	command.Stderr = errOut
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		if err := command.Wait(); err != nil {
			t.Errorf("kubectl appsvc ui: %v\n%s", err, errOut)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("read the URL: %v", err)
	}
	address, token, isURL := strings.Cut(strings.TrimSpace(line), "#token=")
	if !isURL {
		t.Fatalf("got %q, want a URL with a token", line)
	}
	return address, token
}

// read applies changes until the stream ends.
func (p *openedPage) read(stream *bufio.Reader) {
	for {
		line, err := stream.ReadBytes('\n')
		if data, isData := bytes.CutPrefix(line, []byte("data: ")); isData && err == nil {
			err = p.apply(data)
		}
		if err != nil {
			p.mu.Lock()
			p.err = fmt.Errorf("the stream ended: %w", err)
			p.mu.Unlock()
			return
		}
	}
}

// apply applies a change, as the page does.
func (p *openedPage) apply(data []byte) error {
	var change struct {
		Hub      ui.Hub
		Clusters []ui.Cluster
		Apps     []ui.App
		Gone     []string
	}
	if err := json.Unmarshal(data, &change); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown.hub = change.Hub
	for _, app := range change.Apps {
		p.shown.apps[app.Namespace+"/"+app.Name] = app
	}
	for _, cluster := range change.Clusters {
		p.shown.clusters[cluster.Name] = cluster
	}
	for _, key := range change.Gone {
		switch kind, name, _ := strings.Cut(key, "/"); kind {
		case "app":
			delete(p.shown.apps, name)
		case "cluster":
			delete(p.shown.clusters, name)
		}
	}
	return nil
}

// await waits until a check of what the page shows returns nil.
func (p *openedPage) await(t *testing.T, f *fleet, what string, check func(*shownFleet) error) {
	t.Helper()
	took := f.Eventually(t, what, func(context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.err != nil {
			return p.err
		}
		return check(&p.shown)
	})
	t.Logf("%s: %s", what, took.Round(100*time.Millisecond))
}

// cell returns what the page shows of an AppService on a cluster. It has no phase if it shows nothing.
func (s *shownFleet) cell(app, cluster string) ui.Cell {
	for _, cell := range s.apps[app].Cells {
		if cell.Cluster == cluster {
			return cell
		}
	}
	return ui.Cell{}
}

// checkPhase returns an error unless the page shows this phase of an AppService on a cluster.
func (s *shownFleet) checkPhase(app, cluster string, want v1alpha1.ClusterPhase) error {
	if cell := s.cell(app, cluster); cell.Phase != want {
		return fmt.Errorf("%s on %s is %+v, want %s", app, cluster, cell, want)
	}
	return nil
}

// checkHub returns an error if the page has a banner.
func (s *shownFleet) checkHub() error {
	if s.hub.Problem != "" || s.hub.OperatorProblem != "" {
		return fmt.Errorf("the hub has problem %q, the operator %q", s.hub.Problem, s.hub.OperatorProblem)
	}
	for _, kind := range s.hub.Kinds {
		if kind.Problem != "" || !kind.Synced {
			return fmt.Errorf("the list is %+v", kind)
		}
	}
	return nil
}
