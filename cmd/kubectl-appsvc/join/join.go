package join

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/config/member"
)

// PrintMember and PrintHub are the values of --print-only.
const (
	PrintMember = "member"
	PrintHub    = "hub"
)

const (
	// memberTimeout bounds each request to the cluster, unless --request-timeout does. In this time,
	// a user may log in, if the context has a program for the credentials.
	memberTimeout = time.Minute

	flagLabels     = "labels"
	flagNamespaces = "namespaces"
	// FlagAllowLoopback accepts a server for which [IsLoopback] is true.
	FlagAllowLoopback = "allow-loopback"
	// FlagConfiguration grants config/member/configuration.
	FlagConfiguration = "configuration"
	flagDuration      = "duration"
	flagServer        = "member-server"
	flagCA            = "member-certificate-authority"
)

// joinOptions are the flags of join.
type joinOptions struct {
	*hub.Options
	name       string
	labels     map[string]string
	namespaces []string
	// hasConfiguration grants writing ConfigMaps and Secrets.
	hasConfiguration bool
	// isRestricted applies the policy that limits the ServiceAccount.
	isRestricted bool

	duration time.Duration
	timeout  time.Duration

	memberKubeconfig string
	memberServer     string
	memberCA         string

	allowLoopback bool
	force         bool
	dryRun        bool
	printOnly     string

	// isGiven reports whether the flag of a name is given. What a flag that is not given sets stays
	// as an earlier join has left it.
	isGiven func(flag string) bool
}

// New returns the command join.
func New(o *hub.Options) *cobra.Command {
	j := &joinOptions{Options: o}
	command := &cobra.Command{
		Use:   "join CONTEXT",
		Short: "Add a cluster to the fleet",
		Long: `Add the cluster of a context of your kubeconfig to the fleet.

On the cluster, join creates the ServiceAccount fleetwright with the permissions of config/member,
and requests a token for it. On the hub, it writes a Secret with a kubeconfig of this token, and
waits until the hub is connected to the cluster. Fleetwright renews the token.

Before anything is written, join checks the permissions on both sides, the name, and the kubeconfig.
It can be repeated: with other labels or namespaces, after an upgrade, or to replace the token. A
flag that is not given then keeps what is there: labels, namespaces, the permission for ConfigMaps
and Secrets, the policy of --restrict, the server and its certificate authority, and the lifetime of
the token.

With --restrict, join also applies a ValidatingAdmissionPolicy to the cluster (config/member/policy),
so that a stolen token reaches little: it creates only objects with Fleetwright's labels, changes
and deletes only those, and nothing in kube-system. To adopt workloads of others, a namespace then
needs the label fleetwright.dev/adoption=allowed.

For GitOps, --print-only=member prints the objects of the cluster and sends no request.
--print-only=hub prints the Secret of the hub, with a new token of the ServiceAccount, which must
exist: encrypt it before you commit it. Fleetwright does not renew its token, because Git would
revert that: repeat the command before the token expires.

The exit code is 0 if the hub is connected to the cluster, and 3 if it is not when the wait ends.`,
		Example: `  # Add the cluster of context east, with a label for spec.placement
  kubectl appsvc join east --labels topology.kubernetes.io/region=eu

  # Let Fleetwright write in two namespaces of it only
  kubectl appsvc join east --namespaces shop,web

  # Let ConfigMaps and Secrets of the hub travel to it with AppServices
  kubectl appsvc join east --configuration

  # Limit the token to objects with Fleetwright's labels
  kubectl appsvc join east --restrict

  # The hub reaches the cluster by another address than this machine
  kubectl appsvc join east --member-server https://east.internal:6443

  # What would be applied on both sides
  kubectl appsvc join east --dry-run`,
		Args:              hub.Arguments(hub.ContextName),
		ValidArgsFunction: o.CompleteContext,
		RunE: func(command *cobra.Command, args []string) error {
			j.isGiven = command.Flags().Changed
			if err := j.validate(); err != nil {
				return err
			}
			return j.run(command.Context(), args[0])
		},
	}
	j.addFlags(command.Flags())
	return command
}

func (j *joinOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&j.name, "name", "", "`name` of the cluster on the hub; by default made from that of the context")
	name := flags.Lookup("name")
	name.Value = hub.Clusters.Names(name.Value)
	flags.StringToStringVar(&j.labels, flagLabels, nil, "`labels` of the cluster, for spec.placement; they replace those of an earlier join, and '' removes these")
	labels := flags.Lookup(flagLabels)
	labels.Value = labelsValue{labels.Value}
	flags.StringSliceVar(&j.namespaces, flagNamespaces, nil, "the only `namespaces` of the cluster in which Fleetwright may write; '*' permits all, as for a new member")
	flags.BoolVar(&j.hasConfiguration, FlagConfiguration, false, "let Fleetwright write ConfigMaps and Secrets there too, for AppServices with spec.configuration (config/member/configuration); =false takes it back")
	flags.BoolVar(&j.isRestricted, FlagRestrict, false, "limit there what the token of Fleetwright may create, change and delete (config/member/policy; Kubernetes 1.30 or newer); =false removes the policy")
	flags.DurationVar(&j.duration, flagDuration, 720*time.Hour, "lifetime of the token; it is renewed at half of it")
	flags.DurationVar(&j.timeout, "timeout", time.Minute, "how long to wait until the hub is connected to the cluster; 0 does not wait")
	flags.StringVar(&j.memberKubeconfig, "member-kubeconfig", "", "`file` with the context of the cluster, if it is not in your kubeconfig")
	flags.StringVar(&j.memberServer, flagServer, "", "`URL` by which the hub reaches the cluster, if it differs from that of the context; after an earlier join, '' takes that of the context")
	flags.StringVar(&j.memberCA, flagCA, "", "`file` with the certificates that sign the one of this server, if they differ from those of the context; after an earlier join, '' takes those of the context")
	flags.BoolVar(&j.allowLoopback, FlagAllowLoopback, false, "accept a server at a loopback address: the operator runs on this machine with --allow-loopback-members")
	flags.BoolVar(&j.force, "force", false, "replace a Secret that was not written by join, and take over objects that another field manager has applied")
	flags.BoolVar(&j.dryRun, "dry-run", false, "check everything, print the objects of both sides, and change nothing")
	flags.StringVar(&j.printOnly, "print-only", "", "print the objects of one `side` only (member or hub), and change nothing")
}

// clusterName returns the name of the cluster on the hub.
func (j *joinOptions) clusterName(contextName string) (string, error) {
	if j.name != "" {
		if problems := validation.IsDNS1123Subdomain(j.name); len(problems) > 0 {
			return "", fmt.Errorf("--name is %q, which is not a valid name: %s", j.name, problems[0])
		}
		return j.name, nil
	}
	name := hub.DefaultName(contextName)
	if name == "" {
		return "", fmt.Errorf("no name can be made from context %q: set one with --name", contextName)
	}
	if name != contextName {
		j.Note("The cluster is named %s, because %q is not a valid name: --name sets another one.", name, contextName)
	}
	return name, nil
}

func (j *joinOptions) run(ctx context.Context, contextName string) error {
	if j.printOnly == PrintMember {
		objects, err := j.memberObjects()
		if err != nil {
			return err
		}
		return printManifests(j.Out, objects...)
	}
	plan, err := j.prepare(ctx, contextName)
	if err != nil {
		return err
	}
	switch {
	case j.printOnly == PrintHub:
		return plan.printHub(ctx)
	case j.dryRun:
		return plan.printBoth()
	}
	return plan.apply(ctx)
}

// namedNamespaces returns the namespaces of the flag, and none if all are permitted.
func (j *joinOptions) namedNamespaces() []string {
	if slices.Contains(j.namespaces, everyNamespace) {
		return nil
	}
	return j.namespaces
}

// memberObjects returns the objects of the member.
func (j *joinOptions) memberObjects() ([]*unstructured.Unstructured, error) {
	objects, err := member.Objects(j.namedNamespaces()...)
	if err == nil && j.hasConfiguration {
		var configuration []*unstructured.Unstructured
		configuration, err = member.Configuration(j.namedNamespaces()...)
		objects = append(objects, configuration...)
	}
	if err == nil && j.isRestricted {
		var policy []*unstructured.Unstructured
		policy, err = member.Policy()
		objects = append(objects, policy...)
	}
	return objects, err
}

// apply changes both sides, and prints each change after it was made. An error says what was done.
func (p *joinPlan) apply(ctx context.Context) error {
	steps := []joinStep{
		{"the permissions on the member", func() error {
			p.options.Say("On the member (context %s):", p.context.Name)
			return p.onMember(p.applyPermissions(ctx))
		}},
		{"the token", func() error { return p.onMember(p.replaceToken(ctx)) }},
		{"the Secret on the hub", func() error {
			p.options.Say("On the hub:")
			return p.writeSecret(ctx)
		}},
		{"the connection of the hub", func() error { return p.awaitConnection(ctx) }},
	}
	if p.options.timeout == 0 {
		steps = steps[:len(steps)-1]
	}
	for i, step := range steps {
		if err := step.run(); err != nil {
			return unfinished(ctx, steps, i, p.hasChanged && i == 0, err)
		}
	}
	p.printNext()
	return nil
}

// printNext prints what the user may do now.
func (p *joinPlan) printNext() {
	if p.options.timeout == 0 {
		p.options.Say("Next: kubectl appsvc clusters %s", p.name)
		return
	}
	p.options.Say("Next: place AppServices on it by its labels (spec.placement), or check it with\n  kubectl appsvc doctor %s", p.name)
}

// onMember explains an error of the member.
func (p *joinPlan) onMember(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(hub.ExplainContext(p.context.Name, err))
}

// joinStep is a change that join makes.
type joinStep struct {
	what string
	run  func() error
}

// unfinished returns the error of a step, with what was done before it and what was not. isPartial
// reports whether the step has made a part of its changes.
func unfinished(ctx context.Context, steps []joinStep, failed int, isPartial bool, err error) error {
	exit := hub.ExitError{Code: 1, Message: hub.Describe(err)}
	switch {
	case ctx.Err() != nil:
		exit.Message = "interrupted"
	case errors.As(err, &exit): // it has its own code and message
	}
	names := func(steps []joinStep) string {
		var all []string
		for _, step := range steps {
			all = append(all, step.what)
		}
		return strings.Join(all, ", ")
	}
	done, rest := names(steps[:failed]), names(steps[failed:])
	switch {
	case isPartial:
		done, rest = "a part of "+steps[failed].what+" (see above)", "the rest of "+rest
	case done == "":
		done = "nothing"
	}
	exit.Message = fmt.Sprintf("%s. Done: %s. Not done: %s. The command can be repeated", exit.Message, done, rest)
	return exit
}
