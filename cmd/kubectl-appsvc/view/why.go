package view

import (
	"fmt"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/explain"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
)

// maxNames is the maximum number of clusters that are named for one explanation.
const maxNames = 8

// maxExplanations is the maximum number of explanations for the chosen clusters, and for the others,
// unless all clusters are asked for.
const maxExplanations = 15

// Why renders why an AppService runs on each cluster or not. Clusters with the same explanation are
// in one paragraph.
func Why(app *v1alpha1.AppService, clusters []explain.Cluster, o Options) string {
	var chosen, others []*explain.Cluster
	for i := range clusters {
		if c := &clusters[i]; c.Chosen {
			chosen = append(chosen, c)
		} else {
			others = append(others, c)
		}
	}
	var b strings.Builder
	if len(clusters) > 1 {
		name := output.Printable(app.Namespace + "/" + app.Name)
		fmt.Fprintf(&b, "%s is placed on %d of %d clusters.\n\n", name, len(chosen), len(clusters))
	}
	o.writeExplanations(&b, chosen)
	o.writeExplanations(&b, others)
	for _, note := range o.Notes {
		o.writeWrapped(&b, "", "! "+note)
	}
	return b.String()
}

// writeExplanations writes a paragraph for each explanation of clusters, in the order of the first
// cluster of each.
func (o Options) writeExplanations(b *strings.Builder, clusters []*explain.Cluster) {
	names := map[string][]string{} // by explanation
	var order []string
	for _, c := range clusters {
		text := o.explanation(c)
		if _, isKnown := names[text]; !isKnown {
			order = append(order, text)
		}
		names[text] = append(names[text], c.Name)
	}
	listed, rest := order, len(clusters)
	if !o.All && len(order) > maxExplanations {
		listed = order[:maxExplanations]
	}
	for _, text := range listed {
		o.writeWrapped(b, "", o.list(names[text]))
		b.WriteString(text)
		rest -= len(names[text])
	}
	if rest > 0 {
		o.writeWrapped(b, "", fmt.Sprintf("%d more clusters with other explanations; see them with --all, or name a cluster", rest))
	}
}

// explanation renders the explanation of one cluster without its name.
func (o Options) explanation(c *explain.Cluster) string {
	var b strings.Builder
	if c.Chosen {
		o.writeWrapped(&b, "  ", "chosen: "+c.Because)
		o.writeWrapped(&b, "  ", fmt.Sprintf("replicas: %d, %s", c.Replicas, c.ReplicasBecause))
	} else {
		o.writeWrapped(&b, "  ", fmt.Sprintf("not chosen (%s): %s", c.Reason, c.Because))
	}
	for _, override := range c.Overrides {
		o.writeWrapped(&b, "  ", fmt.Sprintf("override %s: %s", override.Name, strings.Join(override.Changes, ", ")))
	}
	switch e := c.Entry; {
	case e == nil && c.Chosen:
		o.writeWrapped(&b, "  ", "the operator has not planned this yet")
	case e == nil:
	case !c.Chosen:
		o.writeWrapped(&b, "  ", "it still runs there: "+state(e))
	case e.Phase != v1alpha1.ClusterReady:
		o.writeWrapped(&b, "  ", "state: "+state(e))
	}
	return b.String()
}

// state describes the observed state of an entry.
func state(e *v1alpha1.ClusterStatus) string {
	text := string(e.Phase)
	if e.Reason != "" && e.Reason != text {
		text += ", " + e.Reason
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// list joins names. It counts the ones beyond maxNames, unless all are to be listed.
func (o Options) list(names []string) string {
	if len(names) <= maxNames || o.All {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}
