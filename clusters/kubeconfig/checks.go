package kubeconfig

import (
	"net/url"
	"strconv"
	"strings"

	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// input is what the checks examine: the cluster and the user of the current context. Nothing else
// of a kubeconfig is used.
type input struct {
	cluster *api.Cluster
	user    *api.AuthInfo
	policy  Policy
}

// check returns why an input is rejected, or nil.
type check func(input) *RejectedError

// chain lists the checks that every kubeconfig must pass, in this order.
var chain = []check{
	noExec,
	noAuthProvider,
	noFiles,
	noProxy,
	noImpersonation,
	noBasicAuth,
	verifiedTLS,
	httpsServer,
	headerSafeToken,
}

// accept returns the Config of an input that passes the chain.
func accept(in input) (*Config, *RejectedError) {
	for _, checkInput := range chain {
		if rejected := checkInput(in); rejected != nil {
			return nil, rejected
		}
	}
	return newConfig(in)
}

func noExec(in input) *RejectedError {
	if in.user.Exec != nil {
		return reject(v1alpha1.ReasonExecRefused, "the kubeconfig runs a program (exec); use a token or a client certificate")
	}
	return nil
}

func noAuthProvider(in input) *RejectedError {
	if in.user.AuthProvider != nil {
		return reject(v1alpha1.ReasonAuthProviderRefused, "the kubeconfig uses an auth-provider; use a token or a client certificate")
	}
	return nil
}

func noFiles(in input) *RejectedError {
	for _, file := range []struct{ field, path string }{
		{"certificate-authority", in.cluster.CertificateAuthority},
		{"client-certificate", in.user.ClientCertificate},
		{"client-key", in.user.ClientKey},
		{"tokenFile", in.user.TokenFile},
	} {
		if file.path != "" {
			return reject(v1alpha1.ReasonFileRefused, "the kubeconfig names a file (%s); embed it: kubectl config view --flatten", file.field)
		}
	}
	return nil
}

func noProxy(in input) *RejectedError {
	if in.cluster.ProxyURL != "" && !in.policy.AllowProxy {
		return reject(v1alpha1.ReasonProxyRefused, "the kubeconfig uses a proxy (proxy-url); --allow-member-proxies permits it")
	}
	return nil
}

func noImpersonation(in input) *RejectedError {
	if u := in.user; u.Impersonate != "" || u.ImpersonateUID != "" || len(u.ImpersonateGroups) > 0 || len(u.ImpersonateUserExtra) > 0 {
		return reject(v1alpha1.ReasonImpersonationRefused, "the kubeconfig impersonates another user (as)")
	}
	return nil
}

func noBasicAuth(in input) *RejectedError {
	if in.user.Username != "" || in.user.Password != "" {
		return reject(v1alpha1.ReasonBasicAuthRefused, "the kubeconfig contains a user name or password; use a token or a client certificate")
	}
	return nil
}

func verifiedTLS(in input) *RejectedError {
	switch {
	case in.cluster.InsecureSkipTLSVerify && in.policy.AllowInsecureTLS:
		return nil
	case in.cluster.InsecureSkipTLSVerify:
		return reject(v1alpha1.ReasonInsecureTLSRefused, "the kubeconfig disables the verification of the server certificate (insecure-skip-tls-verify); embed the CA instead")
	case len(in.cluster.CertificateAuthorityData) == 0:
		return reject(v1alpha1.ReasonInsecureTLSRefused, "the kubeconfig has no certificate-authority-data; embed the cluster's CA")
	}
	return nil
}

func httpsServer(in input) *RejectedError {
	server, err := url.Parse(in.cluster.Server)
	if err != nil || server.Scheme != "https" || server.Hostname() == "" || server.User != nil || !isPort(server.Port()) ||
		strings.ContainsAny(in.cluster.Server, "?#") { // also at the end, because a path follows
		return reject(v1alpha1.ReasonServerRefused, "server must be an https URL such as https://api.example:6443")
	}
	return nil
}

// isPort reports whether a port can be dialled. An empty port means the default port of the scheme.
func isPort(port string) bool {
	value, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && value > 0
}

// headerSafeToken rejects a token that would end its HTTP header.
func headerSafeToken(in input) *RejectedError {
	if strings.ContainsFunc(in.user.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return reject(v1alpha1.ReasonKubeconfigMalformed, "the token has an invalid character, such as a line break or a space")
	}
	return nil
}
