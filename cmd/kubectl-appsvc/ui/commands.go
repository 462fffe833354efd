package ui

import (
	"regexp"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/view"
)

// appCommands returns the commands for an AppService: first those that its rollout waits for.
func appCommands(app *v1alpha1.AppService, hubFlags []string) []Command {
	line := commandLine{hubFlags: hubFlags, namespace: app.Namespace}
	var commands []Command
	for _, request := range view.Requests(app) {
		commands = append(commands, line.plugin(request.Purpose, append([]string{"rollout", request.Command, app.Name}, request.Flags...)...))
	}
	return append(commands,
		line.plugin("show its state", "status", app.Name),
		line.plugin("explain its placement", "why", app.Name),
		Command{"show the object", line.kubectl("describe", "appsvc", app.Name)})
}

// cellCommands returns the commands for an AppService on a cluster where it has an entry.
func cellCommands(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, hubFlags []string) []Command {
	line := commandLine{hubFlags: hubFlags, namespace: app.Namespace}
	var commands []Command
	if entry.HubBehind != nil {
		commands = append(commands, line.annotate("overwrite what is newer on the cluster", app.Name, v1alpha1.AnnotationAcceptHub+"="+entry.HubBehind.Accept))
	}
	if entry.Phase == v1alpha1.ClusterUnknown || entry.Phase == v1alpha1.ClusterDetached {
		commands = append(commands, commandLine{hubFlags: hubFlags}.plugin("find out why the cluster cannot be observed", "doctor", entry.Name))
		if app.IsDeleting() {
			commands = append(commands, line.annotate("delete it without waiting for this cluster", app.Name, v1alpha1.AnnotationAbandon+"="+entry.Name))
		}
	}
	return append(commands,
		line.plugin("explain what runs here", "why", app.Name, entry.Name),
		line.plugin("read the logs of all clusters", "logs", app.Name))
}

// notPlacedCommands returns the commands for an AppService on a cluster where it is not placed.
func notPlacedCommands(app *v1alpha1.AppService, cluster string, hubFlags []string) []Command {
	line := commandLine{hubFlags: hubFlags, namespace: app.Namespace}
	return []Command{
		line.plugin("explain the placement", "why", app.Name, cluster),
		{"change the placement", line.kubectl("edit", "appsvc", app.Name)},
	}
}

// memberCommands returns the commands for a MemberCluster.
func memberCommands(member *v1alpha1.MemberCluster, hubFlags []string) []Command {
	line := commandLine{hubFlags: hubFlags}
	var commands []Command
	if !member.IsReady() {
		commands = append(commands, line.plugin("find out why it is not Ready", "doctor", member.Name))
	}
	if member.Spec.Unschedulable {
		commands = append(commands, line.plugin("let new applications run here", "uncordon", member.Name))
	} else {
		commands = append(commands, line.plugin("keep new applications away", "cordon", member.Name))
	}
	return append(commands, Command{"show the object", line.kubectl("describe", "memberclusters", member.Name)})
}

// commandLine writes command lines. The namespace is empty for a MemberCluster.
type commandLine struct {
	hubFlags  []string
	namespace string
}

// annotate returns the command that sets an annotation of an AppService.
func (c commandLine) annotate(purpose, app, annotation string) Command {
	return Command{purpose, c.kubectl("annotate", "appsvc", app, "--overwrite", "--field-manager=appsvc", annotation)}
}

func (c commandLine) plugin(purpose string, args ...string) Command {
	return Command{purpose, c.kubectl(append([]string{"appsvc"}, args...)...)}
}

// kubectl returns a command line for a shell.
func (c commandLine) kubectl(args ...string) string {
	line := append([]string{"kubectl"}, args...)
	if c.namespace != "" {
		line = append(line, "--namespace="+c.namespace)
	}
	line = append(line, c.hubFlags...)
	for i := range line {
		line[i] = quote(line[i])
	}
	return strings.Join(line, " ")
}

var isPlain = regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_-]+$`).MatchString

// quote returns a word as a shell reads it, in single quotes if it has other characters than names.
func quote(word string) string {
	if isPlain(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
