package configuration

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// travelingTypes are the types of Secrets that may leave the hub. All others belong to a cluster, as
// the token of a ServiceAccount does, or their use is not known.
var travelingTypes = []corev1.SecretType{
	corev1.SecretTypeOpaque, corev1.SecretTypeTLS, corev1.SecretTypeDockerConfigJson,
	corev1.SecretTypeDockercfg, corev1.SecretTypeBasicAuth, corev1.SecretTypeSSHAuth,
}

// sourceChecks decide whether the present content of a source may be used.
type sourceChecks struct {
	app types.NamespacedName
	// operatorNamespace is the namespace of Fleetwright. Nothing leaves it.
	operatorNamespace string
	stored            storedSnapshots
}

// blocker returns why the present content of a source must not be used, or nil.
func (c sourceChecks) blocker(s *source) *Problem {
	switch {
	case s.hub.Presence == PresenceDisabled:
		return &Problem{v1alpha1.ReasonPropagationDisabled, fmt.Sprintf("nothing may leave namespace %s of the hub: ask an administrator to add it to the flag --propagate-from of Fleetwright", c.app.Namespace)}
	case c.app.Namespace == c.operatorNamespace:
		return &Problem{v1alpha1.ReasonTypeRefused, fmt.Sprintf("nothing may leave namespace %s, because it is that of Fleetwright: create the AppService in another namespace", c.app.Namespace)}
	case s.hub.Presence == PresenceForbidden:
		return &Problem{v1alpha1.ReasonConfigurationForbidden, fmt.Sprintf("Fleetwright has no permission for %ss in namespace %s: ask an administrator to grant config/propagation there", s.Kind, c.app.Namespace)}
	case s.hub.Problem != nil:
		return s.hub.Problem
	case s.hub.IsKubeconfig:
		return &Problem{v1alpha1.ReasonTypeRefused, fmt.Sprintf("%s has the kubeconfig of a member, and must not leave the hub: remove it from spec.configuration", s.describe())}
	case s.hub.Presence == PresenceAbsent && s.name == "":
		return c.absence(s)
	case s.hub.Presence == PresenceFound && !s.hub.IsLabelled:
		return &Problem{v1alpha1.ReasonNotPropagated, fmt.Sprintf("%s may not leave the hub: its owner can allow it with %s", s.describe(), c.labelCommand(s.Ref))}
	}
	return c.refusal(s)
}

// absence returns the problem of a source that does not exist.
func (c sourceChecks) absence(s *source) *Problem {
	if s.last.Snapshot == "" || IsAbsent(s.last.Snapshot) {
		return &Problem{v1alpha1.ReasonConfigurationMissing, fmt.Sprintf("%s does not exist in namespace %s: create it, then %s", s.describe(), c.app.Namespace, c.labelCommand(s.Ref))}
	}
	return &Problem{v1alpha1.ReasonSourceDeleted, fmt.Sprintf("%s was deleted in namespace %s: create it again, or remove it from spec.configuration to withdraw its content", s.describe(), c.app.Namespace)}
}

// refusal returns why the content that was read must not be used, or nil.
func (c sourceChecks) refusal(s *source) *Problem {
	if s.hub.Presence != PresenceFound || s.name == "" {
		return nil
	}
	last, taken := c.stored.snapshot(s.last.Snapshot, s.Ref), c.stored.object(s.name, s.Ref)
	switch {
	case s.Kind == v1alpha1.ConfigurationSecret && !slices.Contains(travelingTypes, s.hub.Type):
		return &Problem{v1alpha1.ReasonTypeRefused, fmt.Sprintf("%s has the type %s, which must not leave the hub: use one of the types %s, or remove it from spec.configuration", s.describe(), shorten(string(s.hub.Type)), listTypes())}
	case s.isInPlace && last != nil && last.Type != s.hub.Type:
		return &Problem{v1alpha1.ReasonTypeRefused, fmt.Sprintf("%s has the type %s now, and a Secret on a member cannot change its type %s: create it again with that type, or as another Secret", s.describe(), shorten(string(s.hub.Type)), shorten(string(last.Type)))}
	case taken != nil && s.name != s.hub.EqualTo && (taken.Owner != c.stored.owner || taken.Digest != s.hub.Digest):
		return &Problem{v1alpha1.ReasonNameTaken, fmt.Sprintf("%s %s exists and is not a snapshot of this content: kubectl delete %s %s -n %s", s.Kind, s.name, resource(s.Kind), s.name, c.app.Namespace)}
	}
	return nil
}

// block marks a source whose present content must not be used.
func (s *source) block(problem *Problem) {
	if problem != nil {
		s.problem, s.isBlocked = problem, true
	}
}

// fail marks a source that cannot be read or stored now.
func (s *source) fail(failure *Problem) {
	if failure != nil && s.problem == nil {
		s.problem, s.isFailed = failure, true
	}
}

// explain returns what a problem means for the clusters, after what causes it.
func (s *source) explain() *Problem {
	if s.problem == nil {
		return nil
	}
	message := s.problem.Message
	switch {
	case !s.isBlocked && !s.isFailed:
	case s.isLost:
		return &Problem{v1alpha1.ReasonSnapshotMissing, fmt.Sprintf("%s; its snapshot %s was deleted too, so there is no new revision until then; clusters keep what they run", message, s.last.Snapshot)}
	case s.hasContent():
		message += "; until then, clusters keep its last content"
	case !s.isHeld:
		message += "; there is no new revision until then"
	}
	return &Problem{s.problem.Reason, message}
}

// labelCommand returns the command by which the owner of a source agrees that it leaves the hub.
func (c sourceChecks) labelCommand(ref Ref) string {
	return fmt.Sprintf("kubectl label %s %s -n %s %s=true", resource(ref.Kind), ref.From, c.app.Namespace, v1alpha1.LabelPropagate)
}

// resource returns a kind as users write it in commands.
func resource(kind v1alpha1.ConfigurationKind) string { return strings.ToLower(string(kind)) }

func listTypes() string {
	names := make([]string, 0, len(travelingTypes))
	for _, name := range travelingTypes {
		names = append(names, string(name))
	}
	return strings.Join(names, ", ")
}

// maxType is the maximum length of a type in a message. A Secret can have any type.
const maxType = 80

func shorten(text string) string {
	if len(text) <= maxType {
		return text
	}
	return strings.ToValidUTF8(text[:maxType], "") + "…"
}
