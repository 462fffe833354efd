package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/environment"
	shared "github.com/fleetwright/fleetwright/internal/environment/front"
)

// delivery measures an operator that delivers AppServices to many members, which stand-ins serve.
type delivery struct {
	*bench
	settings deliverySettings
	members  []*standin
	hubHTTP  *http.Client
	hubHost  string
	phases   []phase
}

type deliverySettings struct {
	members, apps, cut      int
	inStages, configuration bool
	restarts                bool
	timeout                 time.Duration
}

// phase is what a part of the delivery took.
type phase struct {
	name       string
	took       time.Duration
	cpu        float64 // seconds of the operator
	rss, peak  float64 // bytes, at its end and at most
	etcd       float64 // bytes, the size of the hub's database
	inStatuses int     // bytes of all AppServices
	writes     hubWrites
}

// hubWrites counts writes on the hub.
type hubWrites struct {
	statuses  float64 // of AppServices
	others    float64 // all others but Leases
	revisions float64 // of the others, those of revisions and snapshots
}

// deliver runs the measurement and prints it.
func (b *bench) deliver(ctx context.Context, s deliverySettings) (err error) {
	d := &delivery{bench: b, settings: s}
	batch, err := d.serve(ctx)
	if err != nil {
		return err
	}
	if err := d.connectHub(); err != nil {
		return err
	}
	flags := []string{"--leader-elect=false"}
	if s.configuration {
		flags = append(flags, environment.Propagate)
	}
	start := func() (environment.Operator, error) { return b.env.StartOperator(ctx, b.cluster, 1, flags...) }
	operator, err := start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, operator.Kill(context.WithoutCancel(ctx))) }()
	err = d.measure(ctx, &operator, start, batch)
	d.report() // what was measured before an error
	if err != nil {
		err = fmt.Errorf("%w; the operator's log:\n%s", err, lastLines(operator.Log()))
	}
	return err
}

func (d *delivery) measure(ctx context.Context, operator *environment.Operator, start func() (environment.Operator, error), batch []candidate) error {
	s := d.settings
	all := deliveredApps(s.apps)
	if err := d.createNamespace(ctx); err != nil {
		return err
	}
	if s.configuration {
		if err := d.configure(ctx, all); err != nil {
			return err
		}
	}
	if err := d.phase(ctx, fmt.Sprintf("%d members join", s.members), func() error {
		_, err := d.hub.join(ctx, batch)
		return err
	}); err != nil {
		return err
	}
	if err := d.phase(ctx, fmt.Sprintf("%d AppServices reach all members", s.apps), func() error {
		if err := d.create(ctx, all); err != nil {
			return err
		}
		return d.awaitMembers(ctx, d.members, s.objects(), 0, func(stored) bool { return false })
	}); err != nil {
		return err
	}
	if err := d.phase(ctx, "until all of them are Ready", func() error {
		return d.awaitSummaries(ctx, fmt.Sprintf("%d/%d", s.members, s.members), s.apps)
	}); err != nil {
		return err
	}
	if err := d.phase(ctx, "a minute of rest", func() error { return pause(ctx, time.Minute) }); err != nil {
		return err
	}
	if s.configuration {
		if err := d.phase(ctx, "the ConfigMaps of all of them change", func() error { return d.changeSettings(ctx, all) }); err != nil {
			return err
		}
	}
	if s.inStages {
		if err := d.rollOut(ctx, all[len(all)-1]); err != nil {
			return err
		}
	}
	if s.restarts {
		if err := d.restarts(ctx, operator, start, all[0].Name); err != nil {
			return err
		}
	}
	if err := d.phase(ctx, fmt.Sprintf("%d members are cut, until all statuses say so", s.cut), func() error {
		for _, member := range d.members[:s.cut] {
			member.cut()
		}
		return d.awaitSummaries(ctx, fmt.Sprintf("%d/%d", s.members-s.cut, s.members), s.apps)
	}); err != nil {
		return err
	}
	if s.restarts {
		if err := d.recreate(ctx, operator, start, all[0].Name); err != nil {
			return err
		}
	}
	if err := d.phase(ctx, "restart (SIGKILL), until an edit is on all other members", func() error {
		if err := (*operator).Kill(ctx); err != nil {
			return err
		}
		edited := all[0].DeepCopy()
		const image = "registry.example/team/web:2.0.0"
		patch := fmt.Appendf(nil, `{"spec":{"image":%q}}`, image)
		if err := d.hub.api.Patch(ctx, edited, client.RawPatch("application/merge-patch+json", patch)); err != nil {
			return err
		}
		var err error
		if *operator, err = start(); err != nil {
			return err
		}
		return d.awaitMembers(ctx, d.members[s.cut:], s.objects(), 1, func(o stored) bool { return o.image == image })
	}); err != nil {
		return err
	}
	return d.phase(ctx, "another minute of rest", func() error { return pause(ctx, time.Minute) })
}

// restartRest is how long an operator is left alone after a restart at rest.
const restartRest = 40 * time.Second

// restarts measures a restart at rest, which must write nothing, and one with a missing Deployment.
func (d *delivery) restarts(ctx context.Context, operator *environment.Operator, start func() (environment.Operator, error), lost string) error {
	before := d.memberWrites()
	if err := d.phase(ctx, "restart (SIGKILL) at rest, and "+restartRest.String(), func() error {
		if err := d.restart(ctx, operator, start); err != nil {
			return err
		}
		return pause(ctx, restartRest)
	}); err != nil {
		return err
	}
	if n := d.memberWrites() - before; n != 0 {
		return fmt.Errorf("the restart at rest wrote %d times to members", n)
	}
	return d.recreate(ctx, operator, start, lost)
}

// recreate measures a restart until a Deployment that one member has lost meanwhile is there again.
func (d *delivery) recreate(ctx context.Context, operator *environment.Operator, start func() (environment.Operator, error), lost string) error {
	last := d.members[len(d.members)-1:]
	return d.phase(ctx, "restart (SIGKILL), until a missing Deployment is created again", func() error {
		if err := (*operator).Kill(ctx); err != nil {
			return err
		}
		last[0].lose(lost)
		var err error
		if *operator, err = start(); err != nil {
			return err
		}
		return d.awaitMembers(ctx, last, d.settings.objects(), 0, func(stored) bool { return false })
	})
}

// restart kills the operator and starts it again.
func (d *delivery) restart(ctx context.Context, operator *environment.Operator, start func() (environment.Operator, error)) (err error) {
	if err := (*operator).Kill(ctx); err != nil {
		return err
	}
	*operator, err = start()
	return err
}

// memberWrites returns the number of writes to all members so far.
func (d *delivery) memberWrites() (n int) {
	for _, member := range d.members {
		n += member.writes()
	}
	return n
}

// objects returns the number of objects on a member.
func (s deliverySettings) objects() int {
	if s.configuration {
		return 3 * s.apps
	}
	return 2 * s.apps
}

// rollOut measures an edit of an AppService that reaches one member, then a tenth of them, and then
// all others.
func (d *delivery) rollOut(ctx context.Context, app *v1alpha1.AppService) error {
	stages := []v1alpha1.RolloutStage{
		{Name: "one", Limit: new(intstr.FromInt32(1))},
		{Name: "tenth", Limit: new(intstr.FromString("10%"))},
		{Name: "others"},
	}
	edited := app.DeepCopy()
	edited.Spec.Rollout = &v1alpha1.Rollout{Stages: stages, RolloutPace: v1alpha1.RolloutPace{MinReadySeconds: new(int32(1))}}
	edited.Spec.Image = "registry.example/team/web:1.9.0"
	for i, stage := range stages {
		if err := d.phase(ctx, "an edit in stages: "+stage.Name, func() error {
			if i == 0 {
				if err := d.hub.api.Patch(ctx, edited, client.MergeFrom(app)); err != nil {
					return err
				}
			}
			return d.awaitStage(ctx, client.ObjectKeyFromObject(app), stage.Name)
		}); err != nil {
			return err
		}
	}
	return nil
}

// awaitStage waits until a stage of the edit is Completed.
func (d *delivery) awaitStage(ctx context.Context, key client.ObjectKey, stage string) error {
	revision := int64(2)
	if d.settings.configuration {
		revision++ // the change of the ConfigMap is one
	}
	return environment.Await(ctx, d.settings.timeout, "stage "+stage, func(ctx context.Context) error {
		var app v1alpha1.AppService
		if err := d.hub.api.Get(ctx, key, &app); err != nil {
			return err
		}
		state := app.Status.Rollout
		for _, s := range state.Stages {
			if state.Revision == revision && s.Name == stage && s.Phase == v1alpha1.StageCompleted {
				return nil
			}
		}
		return fmt.Errorf("the rollout is %+v", state)
	})
}

// serve starts the stand-ins, and returns them as candidates.
func (d *delivery) serve(ctx context.Context) (batch []candidate, err error) {
	paths := http.NewServeMux()
	server, err := shared.Serve(ctx, paths)
	if err != nil {
		return nil, err
	}
	for range d.settings.members {
		member, name := newStandin(), d.name()
		paths.Handle("/m/"+name+"/", http.StripPrefix("/m/"+name, member))
		c := candidate{name: name}
		if c.kubeconfig, err = kubeconfig(server.Address+"/m/"+name, server.CA, member.token); err != nil {
			return nil, err
		}
		d.members, batch = append(d.members, member), append(batch, c)
	}
	return batch, nil
}

// deliveredApps returns AppServices that are placed on all members.
func deliveredApps(n int) []*v1alpha1.AppService {
	all := make([]*v1alpha1.AppService, n)
	for i := range all {
		of := app(i)
		all[i] = &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("app-%03d", i)}, Spec: of.Spec}
	}
	return all
}

func (d *delivery) createNamespace(ctx context.Context) error {
	return client.IgnoreAlreadyExists(d.hub.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
}

func (d *delivery) create(ctx context.Context, all []*v1alpha1.AppService) error {
	return d.forEach(ctx, all, func(app *v1alpha1.AppService) error { return d.hub.api.Create(ctx, app) })
}

// awaitMembers waits until each member has a number of objects, and of those for which a function returns
// true.
func (d *delivery) awaitMembers(ctx context.Context, members []*standin, objects, wanted int, isWanted func(stored) bool) error {
	return environment.Await(ctx, d.settings.timeout, "the objects on the members", func(context.Context) error {
		missing := 0
		for _, member := range members {
			if all, some := member.count(isWanted); all < objects || some < wanted {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d members lack some", missing)
		}
		return nil
	})
}

// awaitSummaries waits until the column Clusters of each AppService is displayed like this.
func (d *delivery) awaitSummaries(ctx context.Context, display string, apps int) error {
	return environment.Await(ctx, d.settings.timeout, "the statuses", func(ctx context.Context) error {
		content, err := d.hubGet(ctx, "/apis/fleetwright.dev/v1alpha1/namespaces/"+namespace+"/appservices", "application/json;as=Table;v=v1;g=meta.k8s.io")
		if err != nil {
			return err
		}
		var table metav1.Table
		if err := json.Unmarshal(content, &table); err != nil {
			return err
		}
		column := slices.IndexFunc(table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == "Clusters" })
		if column < 0 {
			return errors.New("there is no column Clusters")
		}
		n := 0
		for _, row := range table.Rows {
			if row.Cells[column] == display {
				n++
			}
		}
		if n != apps {
			return errors.Join(fmt.Errorf("%d of %d AppServices are %s", n, apps, display), pause(ctx, time.Second))
		}
		return nil
	})
}

func (d *delivery) connectHub() error {
	config, err := clientcmd.RESTConfigFromKubeConfig(d.cluster.Kubeconfig())
	if err != nil {
		return fmt.Errorf("read the hub's kubeconfig: %w", err)
	}
	d.hubHost = config.Host
	d.hubHTTP, err = rest.HTTPClientFor(config)
	return err
}

// hubGet requests a path of the hub.
func (d *delivery) hubGet(ctx context.Context, path, accept string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.hubHost+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	response, err := d.hubHTTP.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", path, response.Status)
	}
	return content, err
}

// hubFigures returns the writes on the hub so far, and the size of its database.
func (d *delivery) hubFigures(ctx context.Context) (writes hubWrites, etcd float64, err error) {
	metrics, err := d.hubGet(ctx, "/metrics", "text/plain")
	if err != nil {
		return writes, 0, err
	}
	for line := range strings.Lines(string(metrics)) {
		series, text, _ := strings.Cut(strings.TrimSpace(line), "} ")
		value, _ := strconv.ParseFloat(text, 64) // other lines have no labels
		switch {
		case strings.HasPrefix(series, "apiserver_request_total{"):
			writes.add(series, value)
		case strings.HasPrefix(series, "apiserver_storage_size_bytes{"):
			etcd = max(etcd, value)
		}
	}
	return writes, etcd, nil
}

// add adds the requests of a series of apiserver_request_total, if they are writes.
func (w *hubWrites) add(series string, requests float64) {
	has := func(label, value string) bool { return strings.Contains(series, fmt.Sprintf(`%s=%q`, label, value)) }
	switch {
	case has("verb", "GET"), has("verb", "LIST"), has("verb", "WATCH"), has("resource", "leases"):
	case has("resource", "appservices") && has("subresource", "status"):
		w.statuses += requests
	default:
		w.others += requests
		// The PUT requests are those of this process.
		if has("resource", "controllerrevisions") || has("resource", "configmaps") && !has("verb", "PUT") {
			w.revisions += requests
		}
	}
}

// sampleInterval is how often the resident memory is sampled.
const sampleInterval = 2 * time.Second

// phase measures the operator and the hub while a function runs.
func (d *delivery) phase(ctx context.Context, name string, do func() error) error {
	fmt.Fprintln(os.Stderr, "bench-members:", name)
	before, err := d.sample(ctx)
	if err != nil {
		return err
	}
	writes, _, err := d.hubFigures(ctx)
	if err != nil {
		return err
	}
	endSampling := d.samplePeak(ctx)
	start := time.Now()
	doErr := do()
	p := phase{name: name, took: time.Since(start), peak: endSampling()}
	if doErr != nil {
		return fmt.Errorf("%s: %w", name, doErr)
	}
	after, err := d.sample(ctx)
	if err != nil {
		return err
	}
	p.rss, p.peak = after[rss], max(p.peak, after[rss])
	if p.cpu = after[processor]; p.cpu >= before[processor] { // the same process
		p.cpu -= before[processor]
	}
	now, etcd, err := d.hubFigures(ctx)
	if err != nil {
		return err
	}
	p.writes = hubWrites{statuses: now.statuses - writes.statuses, others: now.others - writes.others, revisions: now.revisions - writes.revisions}
	p.etcd = etcd
	content, err := d.hubGet(ctx, "/apis/fleetwright.dev/v1alpha1/appservices", "application/json")
	if err != nil {
		return err
	}
	p.inStatuses = len(content)
	d.phases = append(d.phases, p)
	return nil
}

// sample reads the metrics of the running operator.
func (d *delivery) sample(ctx context.Context) (sample, error) {
	operator, err := d.env.Operator()
	if err != nil {
		return nil, err
	}
	if operator == nil {
		return nil, errors.New("the operator is not running")
	}
	return read(ctx, operator)
}

// samplePeak samples the resident memory until the function that it returns is called, which
// returns the peak.
func (d *delivery) samplePeak(ctx context.Context) func() float64 {
	ctx, stop := context.WithCancel(ctx)
	result := make(chan float64, 1)
	go func() {
		peak := 0.0
		for pause(ctx, sampleInterval) == nil {
			if s, err := d.sample(ctx); err == nil { // the operator may be restarting
				peak = max(peak, s[rss])
			}
		}
		result <- peak
	}()
	return func() float64 {
		stop()
		return <-result
	}
}

// report prints a table of the phases.
func (d *delivery) report() {
	s := d.settings
	fmt.Printf("\n%d AppServices on %d members, which stand-ins serve. The CPU time and the resident memory are the operator's. The size\n"+
		"of the database includes old versions until it is compacted. AppServices is the size of all of them as JSON.\n\n", s.apps, s.members)
	fmt.Println("| phase | s | CPU s | RSS MiB | peak MiB | status writes | other hub writes | of these, revisions and snapshots | hub etcd MiB | AppServices MiB |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	for _, p := range d.phases {
		fmt.Printf("| %s | %.1f | %.1f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.1f |\n", p.name, p.took.Seconds(), p.cpu, mebibytes(p.rss), mebibytes(p.peak),
			p.writes.statuses, p.writes.others, p.writes.revisions, mebibytes(p.etcd), mebibytes(float64(p.inStatuses)))
	}
}

func mebibytes(bytes float64) float64 { return bytes / (1 << 20) }
