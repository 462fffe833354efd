package kind

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/e2e/environment"
)

// Member is a cluster that can be joined: by pods, with the internal kubeconfig.
type Member interface {
	Name() string
	Kubeconfig() []byte
	InternalKubeconfig() []byte
}

// MemberKubeconfig is what a hub is given to join the cluster: that of the ServiceAccount which the manifest, config/member/rbac.yaml,
// makes there, with what that grants and no more, and with the server as the operator reaches it.
func MemberKubeconfig(ctx context.Context, member Member, manifest string) ([]byte, error) {
	api, err := environment.NewClient(member.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("use member %s: %w", member.Name(), err)
	}
	if err := environment.ApplyFile(ctx, api, manifest); err != nil {
		return nil, fmt.Errorf("grant what a member grants on %s: %w", member.Name(), err)
	}
	token := &corev1.Secret{}
	key := client.ObjectKey{Namespace: "fleetwright-system", Name: "fleetwright"}
	if err := environment.Await(ctx, 30*time.Second, "the token of the ServiceAccount", func(ctx context.Context) error {
		if err := api.Get(ctx, key, token); err != nil {
			return err
		}
		if len(token.Data[corev1.ServiceAccountTokenKey]) == 0 {
			return errors.New("the Secret has none yet")
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return withToken(member.InternalKubeconfig(), string(token.Data[corev1.ServiceAccountTokenKey]))
}

// withToken is a kubeconfig for the same server, by that token.
func withToken(kubeconfig []byte, token string) ([]byte, error) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	return clientcmd.Write(*config)
}
