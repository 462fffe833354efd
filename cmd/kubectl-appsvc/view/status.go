package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
)

// maxListed is the maximum number of clusters that are listed, unless all of them are asked for.
const maxListed = 30

// Options say how to render.
type Options struct {
	// Now is the time to which ages refer.
	Now time.Time
	// Width is the number of columns of the terminal.
	Width int
	// Color is set if the terminal is to have colours.
	Color bool
	// All lists each cluster, also if there are many.
	All bool
	// Notes are lines about the data, such as that it is old.
	Notes []string
	// HidesAges leaves out ages and remaining times, so that the text changes only with the state.
	HidesAges bool
}

// Status renders the status of an AppService, whose entries are in status.clusters: the conditions,
// the sources of its configuration that need attention, the stages of its rollout, and a tree of its
// clusters with what is wrong there.
func Status(app *v1alpha1.AppService, o Options) string {
	var b strings.Builder
	o.writeHead(&b, app)
	o.writeConfiguration(&b, app)
	o.writeRollout(&b, app)
	o.writeClusters(&b, app)
	for _, note := range o.Notes {
		o.writeWrapped(&b, "", "! "+note)
	}
	return b.String()
}

// writeWrapped writes a text in lines that begin with indent.
func (o Options) writeWrapped(b *strings.Builder, indent, text string) {
	for _, line := range Wrap(text, o.Width-utf8.RuneCountInString(indent)) {
		b.WriteString(strings.TrimRight(indent+line, " ") + "\n")
	}
}

func (o Options) writeHead(b *strings.Builder, app *v1alpha1.AppService) {
	sum := app.Status.Summary
	state, message, color := "Unknown", "the operator has not processed the AppService yet", yellow
	if ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		state, message = ready.Reason, ready.Message
		switch {
		case ready.Status == metav1.ConditionTrue:
			color = green
		case meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionStalled):
			color = red
		}
	}
	fmt.Fprintf(b, "%s/%s  %s  %d/%d clusters ready, %d/%d pods ready",
		output.Printable(app.Namespace), output.Printable(app.Name), o.colored(color, output.Printable(state)), sum.Ready, sum.Clusters, sum.ReadyReplicas, sum.Replicas)
	if available := app.Status.AvailableReplicas; available != nil && *available != sum.ReadyReplicas {
		fmt.Fprintf(b, ", %d available", *available)
	}
	b.WriteString("\n")
	o.writeWrapped(b, "  ", message)
	o.writeWrapped(b, "  ", "image: "+app.Spec.Image)
	for _, kind := range []string{v1alpha1.ConditionRolledOut, v1alpha1.ConditionPlaced, v1alpha1.ConditionSuspended} {
		// While a rollout runs, the message of Ready begins with that of RolledOut.
		if c := meta.FindStatusCondition(app.Status.Conditions, kind); c != nil && !strings.Contains(message, c.Message) {
			o.writeWrapped(b, "  ", kind+": "+c.Message)
		}
	}
}

// writeConfiguration writes the sources of the configuration whose present content is not in use, and
// how many clusters have the content of those that are updated in place.
func (o Options) writeConfiguration(b *strings.Builder, app *v1alpha1.AppService) {
	var lines []string
	isExplained := false
	for _, source := range app.Status.Configuration {
		isExplained = isExplained || source.Reason != ""
		name := strings.ToLower(string(source.Kind)) + "/" + source.From
		if source.UpToDate != "" {
			lines = append(lines, fmt.Sprintf("%s: %s clusters are up to date", name, source.UpToDate))
		}
		if source.Reason != "" {
			lines = append(lines, strings.TrimSuffix(fmt.Sprintf("%s: %s%s: %s", name, source.Reason, o.since(source.Since), source.Message), ": "))
		}
	}
	configured := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionConfigured)
	switch {
	case configured != nil && configured.Status != metav1.ConditionTrue:
		fmt.Fprintf(b, "\nConfiguration  %s\n", o.colored(yellow, output.Printable(configured.Reason)))
		if !isExplained { // it is about all sources together
			lines = append(lines, configured.Message)
		}
	case len(lines) > 0:
		b.WriteString("\nConfiguration\n")
	}
	for _, line := range lines {
		o.writeWrapped(b, "  ", line)
	}
}

// writeRollout writes the stages of a rollout, and the command that continues it.
func (o Options) writeRollout(b *strings.Builder, app *v1alpha1.AppService) {
	state := app.Status.Rollout
	if len(state.Stages) == 0 {
		return
	}
	fmt.Fprintf(b, "\nRevision %d  %s%s\n", state.Revision, output.Printable(string(state.Phase)), o.since(state.Since))
	if state.StableRevision != 0 && state.StableRevision != state.Revision {
		fmt.Fprintf(b, "  the stable revision is %d\n", state.StableRevision)
	}
	name := 0
	for _, stage := range state.Stages {
		name = max(name, utf8.RuneCountInString(stage.Name))
	}
	for _, stage := range state.Stages {
		line := fmt.Sprintf("  %s  %s  %s %d/%d available", pad(stage.Name, name), pad(string(stage.Phase), len(v1alpha1.StageAwaitingApproval)),
			bar(stage.Available, stage.Clusters), stage.Available, stage.Clusters)
		if stage.UpToDate > stage.Available {
			line += fmt.Sprintf(", %d updated", stage.UpToDate)
		}
		if stage.Failed > 0 {
			line += fmt.Sprintf(", %d failed", stage.Failed)
		}
		switch {
		case stage.Promoted:
			line += ", promoted"
		case stage.Approved:
			line += ", approved"
		}
		b.WriteString(line + o.soak(app, &stage) + "\n")
	}
	if next := NextCommand(app); next != "" {
		fmt.Fprintf(b, "  next: %s\n", output.Printable(next))
	}
}

// since returns how long ago a phase began.
func (o Options) since(began *metav1.Time) string {
	if began == nil || o.HidesAges {
		return ""
	}
	return " for " + duration.HumanDuration(o.Now.Sub(began.Time))
}

// NextCommand returns the command that continues the rollout of an AppService, or "" if nobody has to
// do anything.
func NextCommand(app *v1alpha1.AppService) string {
	for _, request := range Requests(app) {
		if !request.IsNeeded {
			continue
		}
		line := fmt.Sprintf("kubectl appsvc rollout %s %s -n %s", request.Command, app.Name, app.Namespace)
		for _, flag := range request.Flags {
			line += " " + quoted(flag)
		}
		if request.Command == "retry" {
			line += ", or edit the spec"
			if len(app.Spec.Configuration) > 0 {
				line += ", or the content of its ConfigMaps and Secrets"
			}
		}
		return line
	}
	return ""
}

// IsPaused reports whether the annotation pause names the current revision.
func IsPaused(app *v1alpha1.AppService) bool {
	number := strconv.FormatInt(app.Status.Rollout.Revision, 10)
	for item := range strings.SplitSeq(app.Annotations[v1alpha1.AnnotationPause], ",") {
		if strings.TrimSpace(item) == number {
			return true
		}
	}
	return false
}

// quoted returns the name of a stage for a shell: "(rest)" has characters with a meaning.
func quoted(stage string) string {
	if strings.ContainsAny(stage, "()") {
		return "'" + stage + "'"
	}
	return stage
}

// severity is the order of the phases: the first one needs attention most.
var severity = []v1alpha1.ClusterPhase{
	v1alpha1.ClusterFailed, v1alpha1.ClusterUnknown, v1alpha1.ClusterDetached, v1alpha1.ClusterRemoving,
	v1alpha1.ClusterProgressing, v1alpha1.ClusterPending, v1alpha1.ClusterReady,
}

// writeClusters writes a tree of the clusters, those that need attention first.
func (o Options) writeClusters(b *strings.Builder, app *v1alpha1.AppService) {
	all := slices.Clone(app.Status.Clusters)
	slices.SortStableFunc(all, func(a, b v1alpha1.ClusterStatus) int {
		return cmp.Compare(slices.Index(severity, a.Phase), slices.Index(severity, b.Phase))
	})
	listed := all
	if !o.All && len(all) > maxListed {
		listed = all[:maxListed]
	}
	name := 0
	for i := range listed {
		name = max(name, utf8.RuneCountInString(listed[i].Name))
	}
	if len(all) > 0 {
		fmt.Fprintf(b, "\n%s\n", output.Printable(app.Name))
	}
	for i := range listed {
		branch, stem := "├─ ", "│    "
		if i == len(all)-1 {
			branch, stem = "└─ ", "     "
		}
		o.writeCluster(b, app, &listed[i], branch+pad(listed[i].Name, name), stem)
	}
	if rest := all[len(listed):]; len(rest) > 0 {
		o.writeWrapped(b, "", fmt.Sprintf("└─ %d more clusters: %s; see them with --all", len(rest), countPhases(rest)))
	}
}

// countPhases counts entries by phase, those that need attention first.
func countPhases(entries []v1alpha1.ClusterStatus) string {
	counts := map[v1alpha1.ClusterPhase]int{}
	for i := range entries {
		counts[entries[i].Phase]++
	}
	var texts []string
	for _, phase := range severity {
		if n := counts[phase]; n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n, phase))
		}
	}
	return strings.Join(texts, ", ")
}

// writeCluster writes the line of a cluster, and what is wrong there.
func (o Options) writeCluster(b *strings.Builder, app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, head, stem string) {
	phase := pad(string(entry.Phase), len(v1alpha1.ClusterProgressing))
	line := fmt.Sprintf("%s  %s  %d/%d pods", head, o.colored(colorOf(entry.Phase), phase), entry.ReadyReplicas, entry.Replicas)
	if entry.ObservedAvailableReplicas != nil {
		line += fmt.Sprintf(", %d available", *entry.ObservedAvailableReplicas)
	}
	switch entry.Phase {
	case v1alpha1.ClusterProgressing, v1alpha1.ClusterPending:
		line += "  " + bar(entry.ReadyReplicas, entry.Replicas)
	case v1alpha1.ClusterUnknown, v1alpha1.ClusterDetached:
		if !o.HidesAges {
			line += "  as of " + duration.HumanDuration(o.Now.Sub(entry.LastTransitionTime.Time)) + " ago"
		}
	}
	if desired := app.Status.Rollout.Revision; entry.Revision != 0 && entry.Revision != desired {
		line += fmt.Sprintf("  revision %d", entry.Revision)
	}
	b.WriteString(line + "\n")
	switch {
	case entry.Reason != "" && entry.Message != "":
		o.writeWrapped(b, stem, entry.Reason+": "+entry.Message)
	case entry.Reason != "" && entry.Reason != v1alpha1.ReasonRollingOut:
		o.writeWrapped(b, stem, entry.Reason)
	}
	if len(entry.Addresses) > 0 {
		o.writeWrapped(b, stem, "addresses: "+strings.Join(entry.Addresses, ", "))
	}
}
