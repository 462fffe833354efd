package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/machine"
)

// nakedCommand, as the first argument, makes this program the naked writer: the floor that the
// operator is compared with. It keeps no state, watches nothing and reads nothing. It sends each
// member what it is told, with many requests at a time.
const nakedCommand = "naked"

// atATime is the number of concurrent requests of the naked writer to each member.
const atATime = 32

// order is a line of the naked writer's input: what to do with the objects of AppServices on every
// member. It answers each order with a line: an error, or an empty one.
type order struct {
	// Kubeconfigs is only in the first order.
	Kubeconfigs [][]byte `json:"kubeconfigs,omitempty"`
	// Apply creates the objects.
	Apply []app `json:"apply,omitempty"`
	// Edit applies only the Deployments, which are all that an edit of the image changes.
	Edit   []app `json:"edit,omitempty"`
	Delete []app `json:"delete,omitempty"`
}

// runNaked obeys orders until the input ends.
func runNaked(ctx context.Context, input io.Reader, output io.Writer) error {
	orders := json.NewDecoder(input)
	var members []*nakedMember
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		for _, kubeconfig := range o.Kubeconfigs {
			member, err := newNakedMember(kubeconfig)
			if err != nil {
				return err
			}
			members = append(members, member)
		}
		text := ""
		if err := obey(ctx, members, o); err != nil {
			text = err.Error()
		}
		if _, err := fmt.Fprintf(output, "%q\n", text); err != nil {
			return err
		}
	}
}

// nakedRequest is a request to any member.
type nakedRequest struct {
	method, path string
	body         []byte
}

func obey(ctx context.Context, members []*nakedMember, o order) error {
	var requests []nakedRequest
	for _, a := range slices.Concat(o.Apply, o.Edit, o.Delete) {
		objects, err := a.render()
		if err != nil {
			return err
		}
		for _, object := range objects {
			if len(o.Edit) > 0 && object.GetKind() != "Deployment" {
				continue
			}
			r := nakedRequest{method: http.MethodDelete, path: "/api/v1/namespaces/" + namespace + "/services/" + a.Name}
			if object.GetKind() == "Deployment" {
				r.path = "/apis/apps/v1/namespaces/" + namespace + "/deployments/" + a.Name
			}
			switch {
			case len(o.Delete) > 0 && object.GetKind() == "Deployment":
				r.path += "?propagationPolicy=Foreground" // as the operator
			case len(o.Delete) == 0:
				r.method, r.path = http.MethodPatch, r.path+"?force=true&fieldManager="+v1alpha1.ManagedBy
				if r.body, err = object.MarshalJSON(); err != nil {
					return err
				}
			}
			requests = append(requests, r)
		}
	}
	errs := make([]error, len(members))
	var group sync.WaitGroup
	for i, member := range members {
		group.Go(func() { errs[i] = member.sendAll(ctx, requests) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// nakedMember is the naked writer's connection to a member.
type nakedMember struct {
	host   string
	client *http.Client
}

func newNakedMember(kubeconfig []byte) (*nakedMember, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	c, err := rest.HTTPClientFor(config)
	return &nakedMember{host: config.Host, client: c}, err
}

// sendAll sends requests in their order, many at a time.
func (m *nakedMember) sendAll(ctx context.Context, requests []nakedRequest) error {
	queue := make(chan nakedRequest, len(requests))
	for _, r := range requests {
		queue <- r
	}
	close(queue)
	errs := make([]error, min(atATime, len(requests)))
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			for r := range queue {
				if errs[i] = m.send(ctx, r); errs[i] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (m *nakedMember) send(ctx context.Context, r nakedRequest) error {
	request, err := http.NewRequestWithContext(ctx, r.method, m.host+r.path, bytes.NewReader(r.body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/apply-patch+yaml")
	response, err := m.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: %s: %s", r.method, r.path, response.Status, content)
	}
	return err
}

// naked is the naked writer as a process.
type naked struct {
	process *machine.Process
	orders  *json.Encoder
	answers *bufio.Reader
	ordered sync.Mutex
}

// startNaked starts the naked writer with the kubeconfigs of members.
func startNaked(ctx context.Context, group *machine.Group, dir string, kubeconfigs [][]byte) (*naked, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, nakedCommand)
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = output
	n := &naked{orders: json.NewEncoder(orders), answers: bufio.NewReader(answers)}
	n.process, err = group.Start(nakedCommand, cmd, filepath.Join(dir, nakedCommand+".log"))
	if err := errors.Join(err, output.Close()); err != nil {
		return nil, err
	}
	return n, n.give(ctx, order{Kubeconfigs: kubeconfigs})
}

// give sends an order and waits for the answer.
func (n *naked) give(_ context.Context, o order) error {
	n.ordered.Lock()
	defer n.ordered.Unlock()
	if err := n.orders.Encode(o); err != nil {
		return fmt.Errorf("give an order to the naked writer: %w", err)
	}
	line, err := n.answers.ReadString('\n')
	if err != nil {
		return fmt.Errorf("wait for the naked writer: %w; its log ends:\n%s", err, tailOf(n.process.Log))
	}
	var text string
	if _, err := fmt.Sscanf(line, "%q", &text); err != nil || text != "" {
		return fmt.Errorf("the naked writer: %s", line)
	}
	return nil
}

// apply creates the objects of AppServices.
func (n *naked) apply(ctx context.Context, apps []app) error { return n.give(ctx, order{Apply: apps}) }

// edit changes the image of the Deployments.
func (n *naked) edit(ctx context.Context, apps []app) error { return n.give(ctx, order{Edit: apps}) }

// remove deletes the objects of AppServices.
func (n *naked) remove(ctx context.Context, apps []app) error {
	return n.give(ctx, order{Delete: apps})
}

func (n *naked) running() []*machine.Process { return []*machine.Process{n.process} }
