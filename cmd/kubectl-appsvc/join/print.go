package join

import (
	"context"
	"errors"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
)

// printHub prints the Secret of the hub with a new token.
func (p *joinPlan) printHub(ctx context.Context) error {
	token, err := p.requestToken(ctx)
	if err != nil {
		return errors.New(hub.ExplainContext(p.context.Name, err))
	}
	secret, _, err := p.secret(token.Status.Token)
	if err != nil {
		return err
	}
	return printSecret(p.options.Out, secret)
}

// printBoth prints the objects of both sides.
func (p *joinPlan) printBoth() error {
	secret, _, err := p.secret(placeholderToken)
	if err != nil {
		return err
	}
	p.options.Say("# On the member, context %s:", p.context.Name)
	if err := printManifests(p.options.Out, p.objects...); err != nil {
		return err
	}
	for _, object := range p.obsolete {
		p.options.Say("# Deleted on the member: %s", describeObject(object))
	}
	p.options.Say("---\n# On the hub; the token is requested from the member:")
	return printSecret(p.options.Out, secret)
}

// printManifests prints objects as YAML documents.
func printManifests(out io.Writer, objects ...*unstructured.Unstructured) error {
	var documents []string
	for _, object := range objects {
		content, err := yaml.Marshal(object.Object)
		if err != nil {
			return err
		}
		documents = append(documents, string(content))
	}
	_, err := io.WriteString(out, strings.Join(documents, "---\n"))
	return err
}

// printSecret prints a Secret with its kubeconfig as text.
func printSecret(out io.Writer, secret *corev1.Secret) error {
	content := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": string(corev1.SecretTypeOpaque),
		"metadata":   map[string]any{"name": secret.Name, "namespace": secret.Namespace, "labels": secret.Labels, "annotations": secret.Annotations},
		"stringData": map[string]string{kubeconfigKey: string(secret.Data[kubeconfigKey])},
	}
	text, err := yaml.Marshal(content)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}
