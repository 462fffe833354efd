package difference

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// Content is a content of a source of the configuration.
type Content struct {
	// Name identifies the content: the name of its snapshot, or a text if it has no snapshot yet.
	// Contents with one name are equal. The name is empty if there is no content.
	Name string
	// Known is the content, or nil if it could not be read.
	Known *configuration.Content
	// Problem is why the content could not be read, or why there is none.
	Problem string
	// IsAbsent is set if there is no content because the source does not exist.
	IsAbsent bool
}

// Contents reads the contents of sources and snapshots.
type Contents interface {
	// Snapshot returns the content that a snapshot of a source has.
	Snapshot(source configuration.Ref, name string) Content
	// Present returns the content of a source that the next revision has: that of the object on the
	// hub, or of the last snapshot if the object must not be used.
	Present(source configuration.Ref) Content
}

// hidden stands for a value that is not shown, as in kubectl diff.
const hidden = "***"

// OfContent returns the difference of two contents of KIND/NAME as a unified diff. The values of
// Secrets, and binary values, are not in it. The labels say what the contents are, such as
// "revision 7".
func OfContent(name, beforeLabel, afterLabel string, before, after Content) string {
	if before.Name == after.Name {
		return ""
	}
	kind, _, _ := strings.Cut(name, "/")
	isSecret := kind != string(v1alpha1.ConfigurationConfigMap)
	was, is := contentText(isSecret, before, after, "before"), contentText(isSecret, after, before, "after")
	return udiff.Unified(fmt.Sprintf("%s (%s)", name, beforeLabel), fmt.Sprintf("%s (%s)", name, afterLabel), was, is)
}

// contentText returns a content as YAML. A hidden value that differs from that of the other content
// has a mark: before or after.
func contentText(isSecret bool, of, other Content, mark string) string {
	switch {
	case of.Name == "":
		return ""
	case of.Known == nil:
		return fmt.Sprintf("# %s: %s\n", of.Name, of.Problem)
	}
	compared := configuration.Content{}
	if other.Known != nil {
		compared = *other.Known
	}
	fields := map[string]any{}
	if of.Known.Type != "" {
		fields["type"] = string(of.Known.Type)
	}
	add := func(name string, values, others map[string][]byte, isHidden bool) {
		texts := map[string]string{}
		for key, value := range values {
			text := string(value)
			if isHidden {
				text = hide(value, others, key, mark)
			}
			texts[key] = text
		}
		if len(texts) > 0 {
			fields[name] = texts
		}
	}
	add("data", of.Known.Data, compared.Data, isSecret)
	add("binaryData", of.Known.BinaryData, compared.BinaryData, true)
	content, err := output.MarshalYAML(fields)
	if err != nil {
		return fmt.Sprintf("# %s cannot be written as YAML\n", of.Name)
	}
	return content
}

// hide returns what stands for a value.
func hide(value []byte, others map[string][]byte, key, mark string) string {
	if another, has := others[key]; has && !bytes.Equal(value, another) {
		return hidden + " (" + mark + ")"
	}
	return hidden
}

// ChangedSources returns the sources whose content differs between two revisions, sorted.
func ChangedSources(before, after []configuration.Named) []configuration.Ref {
	was, is := snapshotsOf(before), snapshotsOf(after)
	var changed []configuration.Ref
	for ref, snapshot := range is {
		if was[ref] != snapshot {
			changed = append(changed, ref)
		}
	}
	for ref := range was {
		if _, has := is[ref]; !has {
			changed = append(changed, ref)
		}
	}
	slices.SortFunc(changed, func(a, b configuration.Ref) int { return strings.Compare(Resource(a), Resource(b)) })
	return changed
}

// snapshotsOf returns the snapshots of a revision by source. A source that does not exist has none.
func snapshotsOf(named []configuration.Named) map[configuration.Ref]string {
	snapshots := map[configuration.Ref]string{}
	for _, n := range named {
		if !configuration.IsAbsent(n.Snapshot) {
			snapshots[configuration.Ref{Kind: n.Kind, From: n.From}] = n.Snapshot
		}
	}
	return snapshots
}

// Resource returns a source as kubectl prints objects, such as configmap/settings.
func Resource(source configuration.Ref) string {
	return strings.ToLower(string(source.Kind)) + "/" + source.From
}
