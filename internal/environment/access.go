package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The ServiceAccounts of the operator, in the namespace [SecretNamespace]: on its hub, and on each
// member. They have exactly the permissions of the shipped manifests, and only the operator uses
// them.
const (
	OperatorAccount = "fleetwright-operator"
	MemberAccount   = "fleetwright"
)

const (
	// tokenLifetime is longer than any suite takes.
	tokenLifetime = 24 * time.Hour
	// operatorTokenLifetime is longer than anybody leaves a demo running: the operator's kubeconfig
	// is not renewed.
	operatorTokenLifetime = 10 * 365 * 24 * time.Hour
)

// Propagate is the flag of the operator by which ConfigMaps and Secrets of all namespaces may travel.
const Propagate = "--propagate-from=*"

// The files with the operator's permissions: those that it always needs on the hub, those for
// ConfigMaps and Secrets that travel from there, and both on a member.
var (
	hubPermissions         = []string{"rbac/service_account.yaml", "rbac/role.yaml", "rbac/role_binding.yaml"}
	propagationPermissions = []string{"propagation/role.yaml", "propagation/all-namespaces.yaml"}
	memberPermissions      = []string{"member/rbac.yaml", "member/configuration/rbac.yaml"}
)

// Restricted is the environment variable with which all members get the policy of config/member that
// limits the operator.
const Restricted = "RESTRICT"

// Restrict applies the policy on a member, with an administrator's client.
func Restrict(ctx context.Context, api client.Client, config string) error {
	return ApplyFile(ctx, api, filepath.Join(config, "member", "policy", "policy.yaml"))
}

// grantMember applies the shipped permissions of a member, and the policy if the environment variable
// [Restricted] is set.
func grantMember(ctx context.Context, api client.Client, config string) error {
	err := applyFiles(ctx, api, config, memberPermissions)
	if err == nil && os.Getenv(Restricted) != "" {
		err = Restrict(ctx, api, config)
	}
	return err
}

// OperatorKubeconfig applies the shipped permissions of a hub, config/rbac and config/propagation,
// with the administrator's kubeconfig, and returns the operator's kubeconfig.
func OperatorKubeconfig(ctx context.Context, admin []byte, config string) ([]byte, error) {
	api, err := NewClient(admin)
	if err != nil {
		return nil, err
	}
	if err := api.Apply(ctx, corev1ac.Namespace(SecretNamespace), fieldOwner); err != nil {
		return nil, fmt.Errorf("apply namespace %s: %w", SecretNamespace, err)
	}
	if err := errors.Join(applyFiles(ctx, api, config, hubPermissions), GrantPropagation(ctx, api, config)); err != nil {
		return nil, err
	}
	return requestToken(ctx, api, admin, OperatorAccount, operatorTokenLifetime)
}

// GrantPropagation applies the shipped permissions for ConfigMaps and Secrets that travel from a hub,
// config/propagation.
func GrantPropagation(ctx context.Context, hub client.Client, config string) error {
	return applyFiles(ctx, hub, config, propagationPermissions)
}

// applyFiles applies files of a directory.
func applyFiles(ctx context.Context, api client.Client, dir string, files []string) error {
	for _, file := range files {
		if err := ApplyFile(ctx, api, filepath.Join(dir, file)); err != nil {
			return err
		}
	}
	return nil
}

// requestToken returns the kubeconfig of a ServiceAccount for the same server.
func requestToken(ctx context.Context, api client.Client, kubeconfig []byte, name string, lifetime time.Duration) ([]byte, error) {
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = SecretNamespace, name
	seconds := int64(lifetime.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := api.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("request a token of ServiceAccount %s: %w", name, err)
	}
	return WithToken(kubeconfig, request.Status.Token)
}

// RequestAccountKubeconfig returns the kubeconfig of a ServiceAccount in [SecretNamespace].
func RequestAccountKubeconfig(ctx context.Context, admin []byte, name string) ([]byte, error) {
	api, err := NewClient(admin)
	if err != nil {
		return nil, err
	}
	return requestToken(ctx, api, admin, name, tokenLifetime)
}

// RequestMemberKubeconfig is [MemberKubeconfig] for a cluster without a controller manager, which
// would create the token of token.yaml: it requests a token.
func RequestMemberKubeconfig(ctx context.Context, admin []byte, config string) ([]byte, error) {
	api, err := NewClient(admin)
	if err != nil {
		return nil, err
	}
	if err := grantMember(ctx, api, config); err != nil {
		return nil, err
	}
	return requestToken(ctx, api, admin, MemberAccount, tokenLifetime)
}

// MemberKubeconfig applies the shipped permissions of a member, config/member, with the
// administrator's kubeconfig, and returns the kubeconfig to join the member with. Its server is
// that of external, which the operator can reach.
func MemberKubeconfig(ctx context.Context, admin, external []byte, config string) ([]byte, error) {
	api, err := NewClient(admin)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(grantMember(ctx, api, config), ApplyFile(ctx, api, filepath.Join(config, "member", "token.yaml"))); err != nil {
		return nil, err
	}
	secret := &corev1.Secret{}
	if err := Await(ctx, StartTimeout, "the token of the member's ServiceAccount", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKey{Namespace: SecretNamespace, Name: MemberAccount}, secret); err != nil {
			return err
		}
		if len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 {
			return errors.New("the Secret has no token yet")
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return WithToken(external, string(secret.Data[corev1.ServiceAccountTokenKey]))
}

// WithToken returns a kubeconfig for the same server with a token.
func WithToken(kubeconfig []byte, token string) ([]byte, error) {
	config, err := clientcmd.Load(kubeconfig)
	if err == nil {
		err = clientcmdapi.MinifyConfig(config)
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	return clientcmd.Write(*config)
}
