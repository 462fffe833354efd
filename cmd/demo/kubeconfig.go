package main

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig returns the file that leads to one cluster.
func (d *demo) kubeconfig(cluster string) string {
	return filepath.Join(d.dir, cluster+".kubeconfig")
}

// contexts returns the file with a context for each cluster, which has the name of the cluster. The hub
// is the current one.
func (d *demo) contexts() string { return filepath.Join(d.dir, "kubeconfig") }

// writeKubeconfigs writes a kubeconfig of each cluster, and one of all of them, for the user.
func (d *demo) writeKubeconfigs() error {
	clusters, err := d.env.Clusters()
	if err != nil {
		return err
	}
	all := clientcmdapi.NewConfig()
	all.CurrentContext = hubName
	for _, cluster := range clusters {
		content := cluster.Kubeconfig()
		if content == nil {
			continue // the cluster was not created completely
		}
		if err := os.WriteFile(d.kubeconfig(cluster.Name()), content, 0o600); err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
		if err := addContext(all, cluster.Name(), content); err != nil {
			return err
		}
	}
	if err := clientcmd.WriteToFile(*all, d.contexts()); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// addContext adds the current context of a kubeconfig to another one, with a name.
func addContext(to *clientcmdapi.Config, name string, content []byte) error {
	config, err := clientcmd.Load(content)
	if err != nil {
		return fmt.Errorf("read the kubeconfig of cluster %s: %w", name, err)
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return fmt.Errorf("the kubeconfig of cluster %s has no current context", name)
	}
	to.Clusters[name], to.AuthInfos[name] = config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	to.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: current.Namespace}
	return nil
}
