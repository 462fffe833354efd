package join

import (
	"bytes"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

// parseSecret returns how the operator reads a Secret, or why it rejects the Secret.
func parseSecret(secret *corev1.Secret) (*kubeconfig.Config, *kubeconfig.RejectedError) {
	rules := kubeconfig.SecretRules{{Namespace: secret.Namespace, Format: kubeconfig.FormatKubeconfig, Selector: labels.Everything()}}
	return rules.Member(secret).Parse(kubeconfig.Policy{})
}

// keptConfig returns how the operator reads the Secret of an earlier join, or nil if there is none.
func (p *joinPlan) keptConfig() *kubeconfig.Config {
	if p.existing == nil || !IsFromJoin(p.existing) {
		return nil
	}
	config, _ := parseSecret(p.existing) // of a rejected one, nothing is kept
	return config
}

// setServer decides on the server of the member for the kubeconfig of the hub, and on the lifetime
// of the token. It returns an error if the operator would reject the kubeconfig. kept is that of an
// earlier join, or nil.
func (p *joinPlan) setServer(kept *kubeconfig.Config) error {
	server, err := p.options.serverFor(p.context.Config)
	if err != nil {
		return err
	}
	if kept != nil {
		var what []string
		if server, what = keepServer(server, kept, p.options.isGiven); len(what) > 0 {
			p.options.Note("The Secret keeps %s, which context %s does not have. To change that, use --%s and --%s ('' takes what the context has).",
				strings.Join(what, " and "), p.context.Name, flagServer, flagCA)
		}
		if lifetime := kept.Lifetime(); lifetime > 0 && !p.options.isGiven(flagDuration) {
			p.options.duration = max(lifetime, minDuration)
		}
	}
	if err := p.options.checkAddress(server.Server); err != nil {
		return err
	}
	p.server = server
	_, _, err = p.secret(placeholderToken)
	return err
}

// keepServer returns a server with what an earlier join has set and no flag does, and what that is.
func keepServer(server clientcmdapi.Cluster, kept *kubeconfig.Config, isGiven func(flag string) bool) (clientcmdapi.Cluster, []string) {
	var what []string
	if !isGiven(flagServer) && (server.Server != kept.Server || server.TLSServerName != kept.ServerName) {
		server.Server, server.TLSServerName = kept.Server, kept.ServerName
		what = append(what, describeServer(kept.Server, kept.ServerName))
	}
	if !isGiven(flagCA) && !bytes.Equal(server.CertificateAuthorityData, kept.CA) {
		server.CertificateAuthorityData, server.InsecureSkipTLSVerify = kept.CA, false
		what = append(what, "a certificate authority")
	}
	return server, what
}

// describeServer returns a server, with the name in its certificate if that differs.
func describeServer(server, certificateName string) string {
	if certificateName != "" {
		return fmt.Sprintf("server %s (tls-server-name %s)", server, certificateName)
	}
	return "server " + server
}

// serverChanges describes how the server and the lifetime of the token change. before is nil if
// there was no accepted kubeconfig.
func serverChanges(before, after *kubeconfig.Config) []string {
	if before == nil {
		return nil
	}
	var changes []string
	if was, is := describeServer(before.Server, before.ServerName), describeServer(after.Server, after.ServerName); was != is {
		changes = append(changes, fmt.Sprintf("%s (was %s)", is, strings.TrimPrefix(was, "server ")))
	}
	if !bytes.Equal(before.CA, after.CA) {
		changes = append(changes, "certificate authority replaced")
	}
	if was, is := before.Lifetime().Round(time.Minute), after.Lifetime().Round(time.Minute); was != is && was > 0 {
		changes = append(changes, fmt.Sprintf("lifetime of the token %s (was %s)", is, was))
	}
	return changes
}

// serverFor returns the server of the flags, and otherwise of the context.
func (j *joinOptions) serverFor(config *rest.Config) (clientcmdapi.Cluster, error) {
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return clientcmdapi.Cluster{}, fmt.Errorf("read the certificates of the context: %w", err)
	}
	server := clientcmdapi.Cluster{
		Server:                   strings.TrimRight(config.Host, "/") + strings.TrimRight(config.APIPath, "/"),
		TLSServerName:            config.ServerName,
		InsecureSkipTLSVerify:    config.Insecure,
		CertificateAuthorityData: config.CAData,
	}
	if j.memberServer != "" {
		server.Server = j.memberServer
	}
	if j.memberCA != "" {
		content, err := os.ReadFile(j.memberCA)
		if err != nil {
			return clientcmdapi.Cluster{}, fmt.Errorf("read --member-certificate-authority: %w", err)
		}
		server.CertificateAuthorityData, server.InsecureSkipTLSVerify = content, false
	}
	return server, nil
}

// checkAddress returns an error for an address that the operator would not dial. It leaves names to
// the operator, because the hub may resolve them in another way.
func (j *joinOptions) checkAddress(server string) error {
	address, isAddress := addressOf(server)
	if !isAddress {
		return nil
	}
	if address.IsLoopback() && !j.allowLoopback {
		return fmt.Errorf("the server of the member is %s, which is this machine only. Give the address by which the hub reaches it with --member-server. "+
			"If the operator runs on this machine with --allow-loopback-members, as in a test, use --%s", server, FlagAllowLoopback)
	}
	if err := transport.CheckAddress(address, j.allowLoopback); err != nil {
		return fmt.Errorf("the operator would refuse %s: %w; use another address with --member-server", server, err)
	}
	return nil
}

// IsLoopback reports whether join refuses a server without --allow-loopback.
func IsLoopback(server string) bool {
	address, isAddress := addressOf(server)
	return isAddress && address.IsLoopback()
}

// addressOf returns the address in the URL of a server. It returns false for a name, and for what is no
// URL: the check of the kubeconfig explains that.
func addressOf(server string) (netip.Addr, bool) {
	parsed, err := url.Parse(server)
	if err != nil {
		return netip.Addr{}, false
	}
	if parsed.Hostname() == "localhost" {
		return netip.IPv6Loopback(), true
	}
	address, err := netip.ParseAddr(parsed.Hostname())
	return address, err == nil
}
