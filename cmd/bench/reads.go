package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// contentReads are the GET requests of the writer to the hub for ConfigMaps and Secrets of
// AppServices. The metrics of an API server do not say which objects were read, so the hub has an
// audit log of these requests only.
type contentReads struct{ sources, snapshots int }

func (c contentReads) minus(other contentReads) contentReads {
	return contentReads{c.sources - other.sources, c.snapshots - other.snapshots}
}

// auditFlags writes the audit policy of the hub, and returns the flags for it.
func auditFlags(dir string) ([]string, error) {
	policy := filepath.Join(dir, "audit-policy.yaml")
	content := fmt.Sprintf(`apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts"]
    verbs: [get]
    namespaces: [%s]
    resources: [{group: "", resources: [configmaps, secrets]}]
  - level: None
`, namespace)
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + auditLog(dir)}, os.WriteFile(policy, []byte(content), 0o600)
}

func auditLog(dir string) string { return filepath.Join(dir, "hub-audit.log") }

// readContentReads returns the reads since the start of the hub.
func (s *servers) readContentReads() (contentReads, error) {
	log, err := os.ReadFile(auditLog(s.dir))
	if errors.Is(err, fs.ErrNotExist) {
		return contentReads{}, nil
	} else if err != nil {
		return contentReads{}, err
	}
	requests, err := environment.Requests(log)
	return countReads(requests), err
}

// countReads counts the requests of an audit log.
func countReads(requests []environment.Request) (found contentReads) {
	for i := range requests {
		if configuration.IsSnapshot(requests[i].Object.Name) {
			found.snapshots++
		} else {
			found.sources++
		}
	}
	return found
}
