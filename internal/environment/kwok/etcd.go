package kwok

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// SaveEtcd copies the state of a stopped cluster to a new directory.
func (e *Environment) SaveEtcd(c environment.Cluster, to string) error {
	if err := os.CopyFS(to, os.DirFS(e.etcdDir(c))); err != nil {
		return fmt.Errorf("save the etcd of cluster %s: %w", c.Name(), err)
	}
	return nil
}

// RestoreEtcd replaces the state of a stopped cluster by that of a directory.
func (e *Environment) RestoreEtcd(c environment.Cluster, from string) error {
	err := os.RemoveAll(e.etcdDir(c))
	if err == nil {
		err = os.CopyFS(e.etcdDir(c), os.DirFS(from))
	}
	if err != nil {
		return fmt.Errorf("restore the etcd of cluster %s: %w", c.Name(), err)
	}
	return nil
}

func (e *Environment) etcdDir(c environment.Cluster) string {
	return filepath.Join(e.cluster(c.Name()).dir, "etcd")
}

var etcdPortSetting = regexp.MustCompile(`etcdPort: (\d+)`)

// Store writes an object as JSON into the etcd of a cluster. The API server would set another UID,
// generation and time. The key follows /registry/.
func (e *Environment) Store(ctx context.Context, c environment.Cluster, key string, object []byte) error {
	settings, err := os.ReadFile(filepath.Join(e.cluster(c.Name()).dir, "kwok.yaml"))
	if err != nil {
		return fmt.Errorf("find the etcd of cluster %s: %w", c.Name(), err)
	}
	port := etcdPortSetting.FindSubmatch(settings)
	if port == nil {
		return fmt.Errorf("find the etcd of cluster %s: its kwok.yaml names no port", c.Name())
	}
	body, err := json.Marshal(map[string][]byte{"key": []byte("/registry/" + key), "value": object})
	if err != nil {
		return err
	}
	// etcd also accepts gRPC calls as JSON, with bytes in base 64, as encoding/json writes them.
	url := fmt.Sprintf("http://%s:%s/v3/kv/put", loopback, port[1])
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("store %s in cluster %s: %w", key, c.Name(), err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body) // only for the message
		return fmt.Errorf("store %s in cluster %s: etcd responds %s: %s", key, c.Name(), response.Status, body)
	}
	return nil
}
