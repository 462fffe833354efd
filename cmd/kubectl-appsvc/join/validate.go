package join

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

const (
	// everyNamespace is the value of --namespaces that permits all namespaces.
	everyNamespace = "*"
	// minDuration and maxDuration are the shortest and the longest lifetime of a token that an API
	// server accepts.
	minDuration = 10 * time.Minute
	maxDuration = (1 << 32) * time.Second
)

// labelsValue is the value of the flag --labels, which may be empty: no labels.
type labelsValue struct{ pflag.Value }

// Set adds labels to the value.
func (v labelsValue) Set(text string) error {
	if text == "" {
		return nil
	}
	return v.Value.Set(text)
}

// validate returns an error for flags that are invalid for all clusters.
func (j *joinOptions) validate() error {
	switch {
	case j.printOnly != "" && j.printOnly != PrintMember && j.printOnly != PrintHub:
		return fmt.Errorf("--print-only is %q: it must be member or hub", j.printOnly)
	case j.printOnly != "" && j.dryRun:
		return errors.New("use either --dry-run or --print-only: both change nothing")
	case j.duration < minDuration:
		return fmt.Errorf("--duration is %s: the shortest lifetime of a token is %s", j.duration, minDuration)
	case j.duration > maxDuration:
		return fmt.Errorf("--duration is %s: the longest lifetime of a token is %s", j.duration, maxDuration)
	case j.timeout < 0:
		return fmt.Errorf("--timeout is %s: it must not be negative; 0 does not wait", j.timeout)
	}
	if err := j.validateNamespaces(); err != nil {
		return err
	}
	return j.validateLabels()
}

// validateNamespaces checks, sorts and compacts the namespaces.
func (j *joinOptions) validateNamespaces() error {
	switch {
	case j.isGiven(flagNamespaces) && len(j.namespaces) == 0:
		return errors.New("--namespaces is empty: name one, or '*' for all namespaces")
	case slices.Contains(j.namespaces, everyNamespace) && len(j.namespaces) > 1:
		return errors.New("--namespaces has '*' and a name: '*' permits all namespaces")
	}
	for _, namespace := range j.namespaces {
		if namespace != everyNamespace && len(validation.IsDNS1123Label(namespace)) > 0 {
			return fmt.Errorf("--namespaces has %q, which is not the name of a namespace", namespace)
		}
	}
	slices.Sort(j.namespaces)
	j.namespaces = slices.Compact(j.namespaces)
	return nil
}

// validateLabels checks the labels. Those of the Secret itself, and those that a MemberCluster does
// not get, are not labels of a cluster.
func (j *joinOptions) validateLabels() error {
	copied := kubeconfig.CopyLabels(j.labels)
	for key, value := range j.labels {
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			return fmt.Errorf("--labels has %s=%s, which is not a label: %s", key, value, problems[0])
		}
		if _, isCopied := copied[key]; !isCopied {
			return fmt.Errorf("--labels has %s, which the MemberCluster would not get, because such keys are those of tools (docs/kubeconfig.md, %q): use another key", key, "Labels")
		}
		if key == secretLabel {
			return fmt.Errorf("--labels has %s, which join sets itself: it makes the Secret that of a member", key)
		}
	}
	return nil
}
