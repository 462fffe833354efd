package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/join"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/view"
)

// outcome is the result of a check.
type outcome string

const (
	checkOK     outcome = "ok"
	checkFailed outcome = "FAIL"
	// checkNote is a result that is neither: the check is not possible, or what it found is optional.
	checkNote outcome = "note"
)

// check is a line of doctor.
type check struct {
	outcome outcome
	what    string
	// text says what was found, and what to do unless the outcome is ok.
	text string
}

func passed(what, format string, args ...any) check {
	return check{checkOK, what, fmt.Sprintf(format, args...)}
}

func failed(what, format string, args ...any) check {
	return check{checkFailed, what, fmt.Sprintf(format, args...)}
}

func noted(what, format string, args ...any) check {
	return check{checkNote, what, fmt.Sprintf(format, args...)}
}

// New returns the command doctor.
func New(o *hub.Options) *cobra.Command {
	var memberContext, memberKubeconfig string
	command := &cobra.Command{
		Use:   "doctor CLUSTER",
		Short: "Check the connection to a cluster, step by step",
		Long: `Check a cluster of the fleet: what the hub reports about it and, from this machine, DNS, TCP, TLS,
authentication, each permission that Fleetwright needs, the version and the clocks.

The checks from this machine use the context of your kubeconfig that leads to the cluster. It is
found by the identity of the cluster; all contexts are tried. doctor reads no credentials of the hub
(of the Secret, only who wrote it), so what it finds may differ from what the hub sees: another
network, or other credentials.

A line that starts with FAIL says what to do. The exit code is 3 if there is one, 1 if doctor itself
did not work, and 0 otherwise.`,
		Example: `  kubectl appsvc doctor east

  # By a context of an administrator of the cluster
  kubectl appsvc doctor east --member-context east-admin`,
		Args:              hub.Arguments(hub.Cluster),
		ValidArgsFunction: o.CompleteMember,
		RunE: func(command *cobra.Command, args []string) error {
			o.LimitRequests(stepTimeout)
			h, err := o.Connect()
			if err != nil {
				return err
			}
			found, err := h.ReadMember(command.Context(), args[0])
			if err != nil {
				return err
			}
			all, err := o.Contexts(memberKubeconfig)
			if err != nil {
				return err
			}
			report := &report{Options: o}
			report.add(operatorCheck(command.Context(), o, h))
			advice := adviceFor(command.Context(), o, h, found)
			report.add(hubChecks(found, advice)...)
			e := &examination{report: report, found: found, Client: h, advice: advice}
			e.examine(command.Context(), all, memberContext)
			if command.Context().Err() != nil {
				return command.Context().Err()
			}
			if report.failures > 0 {
				return hub.ExitError{Code: hub.ExitNegative}
			}
			return nil
		},
	}
	command.Flags().StringVar(&memberContext, "member-context", "", "`context` of the cluster; by default, it is searched for")
	command.Flags().StringVar(&memberKubeconfig, "member-kubeconfig", "", "`file` with the contexts of clusters, if they are not in your kubeconfig")
	return command
}

// report prints checks, each when it is done.
type report struct {
	*hub.Options
	failures int
}

func (r *report) add(checks ...check) {
	const indent, least = 22, 20 // columns of the text
	for _, c := range checks {
		if c.outcome == checkFailed {
			r.failures++
		}
		for i, line := range view.Wrap(c.text, max(least, r.Width()-indent)) {
			if i == 0 {
				r.Say("%-4s  %-14s  %s", c.outcome, c.what, line)
				continue
			}
			r.Say("%*s%s", indent, "", line)
		}
	}
}

// operatorCheck checks that what the hub reports is current.
func operatorCheck(ctx context.Context, o *hub.Options, h hub.Client) check {
	const what = "operator"
	switch operator := o.ReadOperator(ctx, h); {
	case !operator.IsKnown:
		return noted(what, "%s", operator.Stale)
	case operator.Stale != "":
		return failed(what, "%s", operator.Stale)
	case operator.Skew != "":
		return noted(what, "it runs, and %s", operator.Skew)
	default:
		return passed(what, "it runs")
	}
}

// hubChecks returns what the hub reports about a cluster.
func hubChecks(found *v1alpha1.MemberCluster, advice advice) []check {
	var checks []check
	for _, of := range []struct{ kind, what string }{
		{v1alpha1.ConditionReady, "connection"},
		{v1alpha1.ConditionCredentialsValid, "credentials"},
	} {
		checks = append(checks, conditionCheck(of.what, meta.FindStatusCondition(found.Status.Conditions, of.kind)))
	}
	if end := found.Status.CredentialsExpirationTime; end != nil {
		checks = append(checks, expiryCheck(end.Time, time.Now(), advice))
	}
	if c := meta.FindStatusCondition(found.Status.Conditions, v1alpha1.ConditionAllocatableKnown); c != nil && c.Status == metav1.ConditionFalse {
		checks = append(checks, noted("capacity", "the hub does not know it (%s: %s); only placement by capacity needs it", c.Reason, c.Message))
	}
	return checks
}

// expiryCheck returns the check of the end of the credentials. The condition warns before.
func expiryCheck(end, now time.Time, advice advice) check {
	if !now.Before(end) {
		return failed("expiry", "the credentials of the hub ended at %s. %s", output.FormatTime(end), advice.forCredentials("CONTEXT"))
	}
	return passed("expiry", "the credentials of the hub are valid until %s", output.FormatTime(end))
}

// conditionCheck returns the check of a condition that must be True. Some reasons of a condition that
// is True ask the user to do something.
func conditionCheck(what string, c *metav1.Condition) check {
	if c == nil {
		return failed(what, "the hub does not report it: check that the operator runs")
	}
	outcome := checkFailed
	if c.Status == metav1.ConditionTrue {
		switch c.Reason {
		case v1alpha1.ReasonConnected, v1alpha1.ReasonAccepted:
			return passed(what, "%s, as the hub reports", c.Reason)
		case v1alpha1.ReasonNotRenewable:
			outcome = checkNote
		}
	}
	return check{outcome, what, fmt.Sprintf("%s, as the hub reports: %s. See %q in %s",
		c.Reason, strings.TrimSuffix(c.Message, "."), "What a MemberCluster says", join.OperationsGuide)}
}

// examine makes the checks from this machine. The first one that fails may end them.
func (e *examination) examine(ctx context.Context, all hub.Contexts, contextName string) {
	var how []check
	if contextName == "" {
		e.cluster, how = searchContext(e.found, all, all.Match(ctx))
	} else {
		var err error
		if e.cluster, err = all.Cluster(contextName); err != nil {
			how = []check{failed("context", "%v", err)}
		} else {
			how = []check{passed("context", "%s, as you say", contextName)}
		}
	}
	e.add(how...)
	if e.cluster.Config == nil {
		e.add(clockCheck(ctx, "clock of hub", e.Client.Config))
		return
	}
	e.advice.isLoopback = join.IsLoopback(e.cluster.Config.Host)
	e.run(ctx)
}

// searchContext returns the context that leads to a cluster. If none does, a context of the same
// name is used that does not answer, or any of the same name if the hub does not know the identity
// of the cluster yet: the checks then say why.
func searchContext(found *v1alpha1.MemberCluster, all hub.Contexts, matches hub.ContextMatches) (hub.ContextCluster, []check) {
	id := found.Status.ClusterID
	if cluster, has := matches.ByID[id]; has && id != "" {
		return cluster, []check{passed("context", "%s leads to the cluster", cluster.Name)}
	}
	for _, name := range all.Named(found.Name) {
		if cluster, err := all.Cluster(name); err == nil && (id == "" || matches.Errs[name] != nil) {
			return cluster, []check{noted("context", "%s has the name of the cluster, and is used because no other one leads to it; --member-context sets another one", name)}
		}
	}
	text := "no context of %s leads to the cluster, so the checks from this machine are left out. Name its context with --member-context"
	if len(matches.Errs) > 0 {
		text += ". These contexts could not be asked:"
	}
	checks := []check{noted("context", text, all.Source)}
	for _, name := range slices.Sorted(maps.Keys(matches.Errs)) {
		checks = append(checks, noted("context", "%s", hub.ExplainContext(name, matches.Errs[name])))
	}
	return hub.ContextCluster{}, checks
}
