package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
)

// podInterval is how often the pods are listed again while logs are followed, to find new ones.
const podInterval = 3 * time.Second

// logFlags are the flags of logs, named as those of kubectl logs.
type logFlags struct {
	fleetFlags
	container     string
	isFollowing   bool
	isPrevious    bool
	hasTimestamps bool
	tail          int64
	since         time.Duration
	maxStreams    int
}

func newLogs(o *hub.Options) *cobra.Command {
	flags := &logFlags{}
	command := &cobra.Command{
		Use:   "logs APP",
		Short: "Print the logs of an AppService on all of its clusters",
		Long: `Print the logs of the pods of an AppService. Each line begins with the cluster and the pod. The lines
themselves are printed as the pods wrote them, as kubectl logs does.

The clusters are read with your own contexts, which are found by the identity of the cluster. If a
cluster or a pod cannot be read, the command says so, and its exit code is 1.`,
		Example: `  kubectl appsvc logs web --since 10m
  kubectl appsvc logs web --cluster north -f`,
		Args:              hub.Arguments(hub.App),
		ValidArgsFunction: o.CompleteApp(nil),
		RunE: func(command *cobra.Command, args []string) error {
			h, err := o.Connect()
			if err != nil {
				return err
			}
			app, err := h.ReadEntries(command.Context(), args[0])
			if err != nil {
				return err
			}
			clusters, isPartial, err := appClusters(command.Context(), o, h, app, flags.fleetFlags)
			if err != nil {
				return err
			}
			printer := &logPrinter{o: o, app: app, flags: flags, isPartial: isPartial, reads: map[string]bool{}}
			return printer.print(command.Context(), clusters)
		},
	}
	f := command.Flags()
	flags.add(command)
	f.StringVarP(&flags.container, "container", "c", "", "`name` of the container; without it, the main one")
	f.BoolVarP(&flags.isFollowing, "follow", "f", false, "print new lines until you interrupt it, also of new pods")
	f.BoolVarP(&flags.isPrevious, "previous", "p", false, "print the logs of the previous instance of each container, such as one that crashed")
	f.BoolVar(&flags.hasTimestamps, "timestamps", false, "begin each line with its time")
	f.Int64Var(&flags.tail, "tail", -1, "`number` of lines of each pod to print; -1 prints all")
	f.DurationVar(&flags.since, "since", 0, "print only lines that are newer than this `duration`, such as 10m")
	f.IntVar(&flags.maxStreams, "max-log-requests", 100, "maximum `number` of pods to read at the same time")
	return command
}

// logPrinter prints the logs of pods, line by line.
type logPrinter struct {
	o     *hub.Options
	app   *v1alpha1.AppService
	flags *logFlags

	reading sync.WaitGroup
	// lock guards the output and the fields below it.
	lock sync.Mutex
	// reads are the instances of containers whose logs are or were read, see instanceOf.
	reads map[string]bool
	// active is how many of them are read now.
	active int
	// isPartial is set if something could not be read, and isFull if there are more than maxStreams.
	isPartial, isFull bool
}

// print prints the logs of the pods on clusters. When it follows, it ends with the context.
func (p *logPrinter) print(ctx context.Context, clusters []appCluster) error {
	errs := p.start(ctx, clusters, nil)
	if len(errs) == len(clusters) {
		return errors.New("no cluster could be read, as the lines above say")
	}
	for p.flags.isFollowing && ctx.Err() == nil && p.o.WriteError() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(podInterval):
			errs = p.start(ctx, clusters, errs)
		}
	}
	p.reading.Wait()
	switch {
	case p.flags.isFollowing: // the user ended it
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case p.isPartial:
		return errPartial
	case len(p.reads) == 0:
		p.o.Note("%s has no running pods on these clusters: see kubectl appsvc status %s", p.app.Name, p.app.Name)
	}
	return nil
}

// start begins to read the logs of containers that are not read yet. It prints the errors that were
// not there before.
func (p *logPrinter) start(ctx context.Context, clusters []appCluster, before clusterErrors) clusterErrors {
	pods, errs := onEach(ctx, clusters, func(ctx context.Context, c appCluster) ([]corev1.Pod, error) { return c.listPods(ctx, p.app) })
	if ctx.Err() != nil {
		return before
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	noteErrors(p.o, errs, before)
	p.isPartial = p.isPartial || len(errs) > 0
	for i, cluster := range clusters {
		for _, pod := range pods[i] {
			container := p.containerOf(&pod)
			key := instanceOf(&pod, container)
			switch {
			case pod.Status.Phase == corev1.PodPending, p.reads[key]:
			case p.active >= p.flags.maxStreams:
				p.noteFull()
			default:
				p.reads[key] = true
				p.active++
				p.reading.Go(func() { p.read(ctx, cluster, &pod, container) })
			}
		}
	}
	return errs
}

// noteFull says once that there are more pods than may be read at the same time.
func (p *logPrinter) noteFull() {
	if !p.isFull {
		p.o.Note("there are more than %d pods, and the others are left out: choose clusters with --cluster, or raise --max-log-requests", p.flags.maxStreams)
	}
	p.isFull, p.isPartial = true, true
}

// containerOf returns the name of the container whose logs are read.
func (p *logPrinter) containerOf(pod *corev1.Pod) string {
	if p.flags.container != "" {
		return p.flags.container
	}
	return pod.Spec.Containers[0].Name
}

// instanceOf identifies an instance of a container. After a restart, it is another one.
func instanceOf(pod *corev1.Pod, container string) string {
	restarts := int32(0)
	for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if status.Name == container {
			restarts = status.RestartCount
		}
	}
	return fmt.Sprintf("%s/%s/%d", pod.UID, container, restarts)
}

// read prints the log of one container.
func (p *logPrinter) read(ctx context.Context, cluster appCluster, pod *corev1.Pod, container string) {
	options := &corev1.PodLogOptions{Container: container, Follow: p.flags.isFollowing, Previous: p.flags.isPrevious, Timestamps: p.flags.hasTimestamps}
	if p.flags.tail >= 0 {
		options.TailLines = &p.flags.tail
	}
	if p.flags.since > 0 {
		options.SinceSeconds = new(max(1, int64(p.flags.since.Seconds())))
	}
	prefix := output.Printable("["+cluster.member+"/"+pod.Name+"]") + " "
	err := p.stream(ctx, cluster, pod, options, prefix)
	p.lock.Lock()
	defer p.lock.Unlock()
	p.active--
	if err != nil && ctx.Err() == nil {
		p.isPartial = true
		p.o.Note("%s%s", prefix, err)
	}
}

func (p *logPrinter) stream(ctx context.Context, cluster appCluster, pod *corev1.Pod, options *corev1.PodLogOptions, prefix string) error {
	api, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		return err
	}
	stream, err := api.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return err
	}
	return errors.Join(p.copy(stream, prefix), stream.Close())
}

// copy prints each line with a prefix. Lines of other pods do not interrupt it.
func (p *logPrinter) copy(from io.Reader, prefix string) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if line[len(line)-1] != '\n' {
				line += "\n"
			}
			p.lock.Lock()
			written := p.o.WriteRaw(prefix + line)
			p.lock.Unlock()
			if written != nil {
				return written
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
