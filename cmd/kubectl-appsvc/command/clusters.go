package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
)

// clustersFlags are the flags of clusters.
type clustersFlags struct {
	output.ListFlags
	selector   string
	isWatching bool
}

func newClusters(o *hub.Options) *cobra.Command {
	flags := &clustersFlags{ListFlags: output.NewListFlags(hub.NewScheme())}
	command := &cobra.Command{
		Use:   "clusters [CLUSTER...]",
		Short: "List the clusters of the fleet",
		Long: `List the clusters of the fleet: whether they are connected, which version of Kubernetes they
run, how many AppServices they have, and whether their credentials are valid. If the operator does
not run, the error stream says so, because the list may be old then.

With --watch, the list is shown until you interrupt it. On a terminal, it is kept current. Otherwise,
it is followed by the clusters that have changed.`,
		Example: `  # All clusters, and why one of them is not Ready
  kubectl appsvc clusters -o wide

  # The clusters of one region
  kubectl appsvc clusters -l topology.kubernetes.io/region=eu

  # The oldest cluster first, with columns of your own
  kubectl appsvc clusters --sort-by .metadata.creationTimestamp -o custom-columns=NAME:.metadata.name,VERSION:.status.version`,
		Args:              hub.Arguments(hub.Cluster.Optional().Repeated()),
		ValidArgsFunction: o.CompleteMembers,
		RunE: func(command *cobra.Command, names []string) error {
			matching, err := labels.Parse(flags.selector)
			if err != nil {
				return fmt.Errorf("--selector: %w", err)
			}
			if flags.selector != "" && len(names) > 0 {
				return errors.New("names and --selector exclude each other: give one of them")
			}
			printer, err := newMemberPrinter(o, flags, len(names) == 1)
			if err != nil {
				return err
			}
			if printer.h, err = o.Connect(); err != nil {
				return err
			}
			if flags.isWatching {
				return printer.follow(command.Context(), names, matching)
			}
			list, err := selectMembers(command.Context(), printer.h, names, matching)
			if err != nil {
				return err
			}
			return printer.print(command.Context(), list)
		},
	}
	command.Flags().StringVarP(&flags.selector, "selector", "l", "", "`labels` of the clusters")
	command.Flags().BoolVarP(&flags.isWatching, "watch", "w", false, "show each change until you interrupt it")
	flags.AddFlags(command)
	return command
}

// selectMembers returns the MemberClusters with these names, or those that a selector matches.
func selectMembers(ctx context.Context, h hub.Client, names []string, selector labels.Selector) (*v1alpha1.MemberClusterList, error) {
	list := &v1alpha1.MemberClusterList{}
	if len(names) == 0 {
		if err := h.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		member, err := h.ReadMember(ctx, name)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, *member)
	}
	return list, nil
}

// memberColumns are the columns of the table of clusters.
var memberColumns = []output.Column{
	{Name: "Name"}, {Name: "Ready"}, {Name: "Reason"}, {Name: "Version"}, {Name: "Region"}, {Name: "Apps"},
	{Name: "Credentials"}, {Name: "Age", IsAge: true}, {Name: "Message", IsWide: true},
}

// memberPrinter prints MemberClusters as the flags of clusters say.
type memberPrinter struct {
	o     *hub.Options
	h     hub.Client
	flags *clustersFlags
	table *output.Table
	// isOne is set if one cluster is named, which is then printed as an object and not as a list.
	isOne bool
	// objects is nil if the output is a table. shown are the versions of the objects that a watch has
	// printed.
	objects printers.ResourcePrinter
	shown   map[string]string
}

func newMemberPrinter(o *hub.Options, flags *clustersFlags, isOne bool) (*memberPrinter, error) {
	p := &memberPrinter{o: o, flags: flags, table: flags.NewTable(o.Streams, memberColumns), isOne: isOne, shown: map[string]string{}}
	if flags.IsTable() {
		return p, nil
	}
	var err error
	p.objects, err = flags.ToPrinter()
	return p, err
}

// print prints a list once.
func (p *memberPrinter) print(ctx context.Context, list *v1alpha1.MemberClusterList) error {
	if err := p.prepare(list); err != nil {
		return err
	}
	p.o.NoteAll(p.o.OperatorNotes(ctx, p.h))
	switch {
	case p.objects == nil && len(list.Items) == 0:
		p.o.Note("No clusters found. Add one with: kubectl appsvc join CONTEXT")
		return nil
	case p.objects == nil:
		return p.table.Print(memberRows(list.Items))
	case p.isOne:
		return p.objects.PrintObj(&list.Items[0], p.o.Out)
	}
	return p.flags.PrintList(p.objects, list, p.o.Out)
}

// prepare sorts a list, and sets the kinds that the client has cleared.
func (p *memberPrinter) prepare(list *v1alpha1.MemberClusterList) error {
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MemberCluster"))
	}
	return output.SortList(list, p.flags.SortBy)
}

// follow shows the clusters with these names, or those that a selector matches, until the user
// interrupts it.
func (p *memberPrinter) follow(ctx context.Context, names []string, selector labels.Selector) error {
	err := p.h.FollowList(ctx, &v1alpha1.MemberClusterList{}, []client.ListOption{client.MatchingLabelsSelector{Selector: selector}}, func(all client.ObjectList) error {
		list := all.(*v1alpha1.MemberClusterList)
		if len(names) > 0 {
			list.Items = slices.DeleteFunc(list.Items, func(m v1alpha1.MemberCluster) bool { return !slices.Contains(names, m.Name) })
		}
		return p.show(ctx, list)
	}, func(err error) { p.o.Note("%s; trying again", hub.Describe(err)) })
	if ctx.Err() == nil {
		return err
	}
	return nil // the user has ended it
}

// show prints what has changed in a list that is followed.
func (p *memberPrinter) show(ctx context.Context, list *v1alpha1.MemberClusterList) error {
	if err := p.prepare(list); err != nil {
		return err
	}
	if p.objects == nil {
		return p.table.Show(memberRows(list.Items), p.o.OperatorNotes(ctx, p.h)...)
	}
	for i := range list.Items {
		member := &list.Items[i]
		if p.shown[member.Name] == member.ResourceVersion {
			continue
		}
		p.shown[member.Name] = member.ResourceVersion
		if err := p.objects.PrintObj(member, p.o.Out); err != nil {
			return err
		}
	}
	return nil
}

// memberRows returns a row for each cluster.
func memberRows(members []v1alpha1.MemberCluster) []output.Row {
	var rows []output.Row
	for i := range members {
		member := &members[i]
		ready, reason, message := "Unknown", "", ""
		if c := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionReady); c != nil {
			ready, reason, message = string(c.Status), c.Reason, c.Message
		}
		if member.Spec.Unschedulable && member.IsReady() {
			reason = "Cordoned"
		}
		credentials := ""
		if c := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionCredentialsValid); c != nil {
			credentials = c.Reason
		}
		rows = append(rows, output.Row{Key: member.Name, Cells: []string{
			member.Name, ready, output.OrNone(reason), output.OrNone(member.Status.Version), output.OrNone(member.Labels[corev1.LabelTopologyRegion]),
			strconv.Itoa(int(member.Status.AppServices)), output.OrNone(credentials), output.Age(member.CreationTimestamp.Time), message,
		}})
	}
	return rows
}
