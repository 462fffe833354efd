// Package upgrade tests an upgrade from the last release: the current CRDs and operator serve what
// that release left on a hub and its members, and no request changes anything.
//
// A release is recorded once, in testdata/RELEASE:
//
//   - crds, and samples.yaml: config/samples and testdata/rare.yaml, as they were applied;
//   - hub.yaml: the AppServices and MemberClusters of a hub with all of these, at rest;
//   - north.yaml and south.yaml: the Deployments, Services, HorizontalPodAutoscalers and
//     PodDisruptionBudgets of two members, and the objects that others had created there before
//     (testdata/unmanaged.yaml).
//
// Objects are recorded completely, with UIDs, generations and managedFields, except for the
// resource version. The operator's annotations contain some of these: the UIDs of the AppService
// and of the hub, the generation, and a hash that covers them. So the test writes the objects
// directly into the etcd of new clusters, because API servers would set other values. kube-system
// of each cluster gets its recorded UID, because that is the identity of the cluster. As after a
// restore of etcd, all references stay valid. ReplicaSets and pods are not recorded: the members'
// controllers create them. The Kubernetes version in the status of a MemberCluster becomes that of
// the new member.
//
//	make record-release RELEASE=v0.1.0
//	go test ./e2e/upgrade -v -count=1        # a part of make e2e, which builds what it needs
package upgrade

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
)

var (
	binFlag    = flag.String("bin", "../../bin", "directory of the programs")
	dirFlag    = flag.String("dir", ".upgrade", "directory of the clusters' files")
	recordFlag = flag.String("record", "", "record this release instead of testing")
)

// config is the directory of the shipped manifests.
const config = "../../config"

// env is where each test creates a fleet of its own. Only TestMain sets it.
var env *kwok.Environment

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if env, err = kwok.New(kwok.Options{Dir: *dirFlag, Bin: *binFlag, Config: config}); err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		os.Exit(1)
	}
	os.Exit(framework.Main(m, framework.MainOptions{Name: "upgrade", Environment: env}))
}
