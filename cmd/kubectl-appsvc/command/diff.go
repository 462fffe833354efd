package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/contents"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/difference"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/controllers/podsecurity"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// The exit codes of kubectl diff.
const (
	exitDifferent = 1
	exitDiffError = 2
)

func newDiff(o *hub.Options) *cobra.Command {
	var file, output string
	command := &cobra.Command{
		Use:   "diff APP [CLUSTER] [-f FILE]",
		Short: "Show what an edit would change on each cluster, before it is saved",
		Long: `Show what applying a file would change on each cluster: which clusters get the AppService or lose
it, and which fields of its objects change. The hub checks the file, and nothing is saved.

Without the permission to list MemberClusters, the command compares the clusters that have the
AppService, and leaves out what depends on the labels, the taints and the capacity of clusters.

Without a file, the command shows what the spec asks for that clusters do not have yet, because a
rollout is in progress or has failed.

The content of ConfigMaps and Secrets in spec.configuration is compared too, with your permissions:
that of the revision of a cluster with that of the object on the hub. Values of Secrets are hidden.

Clusters whose pods violate the Pod Security Standard of the namespace are Refused. Without the label
pod-security.kubernetes.io/enforce, the command assumes the level baseline.

The exit code is 0 without a difference, 1 with one, and greater than 1 after an error, as that of
kubectl diff.`,
		Example: `  kubectl appsvc diff web -f web.yaml
  kubectl appsvc diff web north -f web.yaml`,
		Args: func(command *cobra.Command, args []string) error {
			return diffError(hub.Arguments(hub.App, hub.Cluster.Optional())(command, args))
		},
		ValidArgsFunction: o.CompleteApp(o.CompleteMember),
		RunE: func(command *cobra.Command, args []string) error {
			changes, err := diff(command.Context(), o, args[0], file, args[1:])
			if err != nil {
				return diffError(err)
			}
			if output != "" {
				err = printValue(o.Out, output, changes)
			} else {
				err = o.Write(diffText(changes))
			}
			switch {
			case err != nil:
				return diffError(err)
			case len(changes) > 0:
				return hub.ExitError{Code: exitDifferent}
			}
			return nil
		},
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return diffError(err) })
	command.Flags().StringVarP(&file, "filename", "f", "", "`file` with the edited AppService; - reads the standard input")
	command.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: (json, yaml).")
	return command
}

// diffError gives an error the exit code of kubectl diff.
func diffError(err error) error {
	if err == nil {
		return nil
	}
	return hub.ExitError{Code: exitDiffError, Message: hub.Describe(err)}
}

// diff returns what an edit changes on each cluster, or on one cluster only.
func diff(ctx context.Context, o *hub.Options, name, file string, only []string) ([]difference.Cluster, error) {
	h, err := o.Connect()
	if err != nil {
		return nil, err
	}
	before, after, err := readEdit(ctx, o, &h, name, file)
	if err != nil {
		return nil, err
	}
	var history []revision.Stored
	statusOf := after
	if before != nil {
		statusOf = before
		if history, err = h.ReadHistory(ctx, before); err != nil {
			return nil, err
		}
	}
	standard, err := standardOf(ctx, h, after.Namespace)
	if err != nil {
		return nil, err
	}
	members, isPermitted, err := h.ListPermittedMembers(ctx)
	if err != nil {
		return nil, err
	}
	var changes []difference.Cluster
	if isPermitted {
		changes, err = difference.Between(before, after, members, history, contents.Of(ctx, h, statusOf), standard)
	} else {
		o.Note("you may not list MemberClusters, so this compares the clusters that have %s, without what depends on the labels, the taints and the capacity of clusters: %s", name, hub.MembersRole)
		changes, err = difference.BetweenEntries(before, after, history, contents.Of(ctx, h, statusOf), standard)
	}
	if err != nil || len(only) == 0 {
		return changes, err
	}
	switch {
	case !isPermitted && statusOf.Status.Cluster(only[0]) == nil:
		return nil, noSuchEntry(name, only[0])
	case isPermitted && !slices.ContainsFunc(members, func(m v1alpha1.MemberCluster) bool { return m.Name == only[0] }):
		return nil, hub.NoSuchCluster(only[0])
	}
	return slices.DeleteFunc(changes, func(c difference.Cluster) bool { return c.Name != only[0] }), nil
}

// readEdit returns an AppService and what it becomes by the edit in a file, which decides about the
// namespace. Without a file, both are the same. before is nil if the AppService is new.
func readEdit(ctx context.Context, o *hub.Options, h *hub.Client, name, file string) (before, after *v1alpha1.AppService, err error) {
	if file == "" {
		before, err = h.ReadEntries(ctx, name)
		return before, before, err
	}
	edited, err := readAppFile(o, file, name)
	if err != nil {
		return nil, nil, err
	}
	if edited.GetNamespace() == "" {
		edited.SetNamespace(h.Namespace)
	}
	h.Namespace = edited.GetNamespace()
	before, err = h.ReadEntries(ctx, name)
	if errors.As(err, new(hub.NotFoundError)) {
		before, err = nil, nil // it is a new AppService
	}
	if err != nil {
		return nil, nil, err
	}
	if after, err = dryRun(ctx, *h, before, edited); err != nil {
		return nil, nil, fmt.Errorf("the hub does not accept the AppService in %s: %w", file, err)
	}
	return before, after, nil
}

// standardOf returns what new pods of a namespace must comply with. The operator's flag is not known:
// without a label that can be read, its default is assumed.
func standardOf(ctx context.Context, h hub.Client, namespace string) (difference.Standard, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := h.Get(ctx, client.ObjectKey{Name: namespace}, found)
	why := fmt.Sprintf("namespace %s has no label %s", namespace, podsecurity.EnforceLabel)
	switch level, isLabelled := found.Labels[podsecurity.EnforceLabel]; {
	case apierrors.IsForbidden(err):
		why = fmt.Sprintf("you may not read namespace %s", namespace)
	case err != nil:
		return difference.Standard{}, fmt.Errorf("read namespace %s: %w", namespace, err)
	case isLabelled:
		return difference.Standard{
			Policy: podsecurity.PolicyOf(found.Labels, ""),
			Source: fmt.Sprintf("namespace %s has the label %s=%s", namespace, podsecurity.EnforceLabel, level),
		}, nil
	}
	return difference.Standard{
		Policy: podsecurity.PolicyOf(nil, podsecurity.Baseline),
		Source: fmt.Sprintf("assuming %s, the default of the operator's --pod-security-level, because %s", podsecurity.Baseline, why),
	}, nil
}

// diffText joins the changes. Clusters with the same changes are named together.
func diffText(changes []difference.Cluster) string {
	names := map[string][]string{} // by what changes
	var order []string
	for _, change := range changes {
		text := change.Diff
		if change.Kind == difference.Invalid || change.Kind == difference.Refused {
			text = strings.TrimSpace(text) + "\n"
		}
		key := string(change.Kind) + "\n" + text
		if len(names[key]) == 0 {
			order = append(order, key)
		}
		names[key] = append(names[key], change.Name)
	}
	var b strings.Builder
	for _, key := range order {
		kind, text, _ := strings.Cut(key, "\n")
		fmt.Fprintf(&b, "# %s on %s: %s\n%s", kind, countClusters(len(names[key])), strings.Join(names[key], ", "), text)
	}
	return output.PrintableLines(b.String())
}

func countClusters(n int) string {
	if n == 1 {
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", n)
}

// readAppFile returns the AppService of a name that is in a file.
func readAppFile(o *hub.Options, file, name string) (*unstructured.Unstructured, error) {
	objects, err := readObjects(o, file)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if object.GroupVersionKind() == v1alpha1.GroupVersion.WithKind("AppService") && object.GetName() == name {
			return object, nil
		}
	}
	return nil, fmt.Errorf("%s has no AppService %s of %s", file, name, v1alpha1.GroupVersion)
}

// readObjects returns the objects in a file of YAML or JSON documents. Lists are flattened.
func readObjects(o *hub.Options, file string) ([]*unstructured.Unstructured, error) {
	content, err := readFile(o, file)
	if err != nil {
		return nil, err
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", file, err)
		case len(object.Object) == 0: // an empty document
		case object.IsList():
			err = object.EachListItem(func(item runtime.Object) error {
				objects = append(objects, item.(*unstructured.Unstructured))
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("read the list in %s: %w", file, err)
			}
		default:
			objects = append(objects, object)
		}
	}
}

// readFile returns the content of a file, or of the standard input for "-".
func readFile(o *hub.Options, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(o.In)
	}
	return os.ReadFile(file)
}

// dryRun returns the AppService that the hub would have after kubectl apply of a file. before is nil
// if it is new.
func dryRun(ctx context.Context, h hub.Client, before *v1alpha1.AppService, edited *unstructured.Unstructured) (*v1alpha1.AppService, error) {
	var lastApplied string
	if before != nil {
		lastApplied = before.Annotations[corev1.LastAppliedConfigAnnotation]
	}
	result := edited.DeepCopy()
	content, err := json.Marshal(edited.Object)
	if err != nil {
		return nil, err
	}
	// The error of an apply names an unknown field, and that of a merge quotes the whole object. So
	// the file is always applied first.
	apply := client.RawPatch(types.ApplyPatchType, content)
	if err := h.Patch(ctx, result, apply, client.DryRunAll, client.FieldOwner("kubectl"), client.ForceOwnership); err != nil {
		return nil, err
	}
	if lastApplied != "" {
		merge, err := mergePatch(ctx, h, before, content, lastApplied)
		if err != nil {
			return nil, err
		}
		if err := h.Patch(ctx, result, merge, client.DryRunAll); err != nil {
			return nil, err
		}
	}
	after := &v1alpha1.AppService{}
	return after, runtime.DefaultUnstructuredConverter.FromUnstructured(result.Object, after)
}

// mergePatch returns the patch of kubectl apply without --server-side: fields that the last apply set
// and the file does not have are removed.
func mergePatch(ctx context.Context, h hub.Client, before *v1alpha1.AppService, edited []byte, lastApplied string) (client.Patch, error) {
	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AppService"))
	if err := h.Get(ctx, client.ObjectKeyFromObject(before), current); err != nil {
		return nil, err
	}
	now, err := json.Marshal(current.Object)
	if err != nil {
		return nil, err
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(lastApplied), edited, now)
	return client.RawPatch(types.MergePatchType, patch), err
}
