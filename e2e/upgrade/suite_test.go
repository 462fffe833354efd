// Package upgrade tests that what the last release has left on a hub and on its members is served by this one, with no request that
// changes anything.
//
// A release is recorded once, in testdata/RELEASE:
//
//   - crds, and samples.yaml: all of config/samples and of testdata/rare.yaml, as they were applied;
//   - hub.yaml: the AppServices and MemberClusters of a hub with all of that, when it had come to rest;
//   - north.yaml and south.yaml: the Deployments, Services, HorizontalPodAutoscalers and PodDisruptionBudgets of two members, and
//     what somebody else had there before (testdata/strangers.yaml).
//
// Objects are recorded whole, with UIDs, generations and the managers of their fields, but for the resource version. What the
// operator marks objects with speaks of these: the UIDs of an AppService and of the hub, the generation, and a hash over it all. So
// the test writes them into the etcd of new clusters as they are, past the API servers, which would choose others; kube-system of each
// cluster gets its recorded UID too, for it is the cluster's identity. As after a restore of etcd, all that refers to another still does.
// ReplicaSets and pods are no part of it: the members' own controllers make them. The version of Kubernetes that a MemberCluster
// shows becomes that of the new member.
//
//	make record-release RELEASE=v0.1.0
//	go test ./e2e/upgrade -v -count=1        # with what make e2e has built, of which it is a part
package upgrade

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/e2e/environment/kwok"
)

var (
	binFlag    = flag.String("bin", "../../bin", "directory of the programs")
	dirFlag    = flag.String("dir", ".upgrade", "directory of everything that the clusters keep")
	recordFlag = flag.String("record", "", "record this release, and test nothing")
)

const (
	// config is the directory of the shipped manifests.
	config = "../../config"

	// patience bounds every wait.
	patience = 90 * time.Second
)

// theEnvironment is empty at the beginning of each test. Only TestMain sets it.
var theEnvironment *kwok.Environment

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	env, err := kwok.New(kwok.Options{Dir: *dirFlag, Bin: *binFlag, Config: config})
	if err == nil {
		err = errors.Join(env.CheckPrograms(), env.Lock(), env.Clean(context.Background()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		return 1
	}
	clean := func() {
		if err := env.Clean(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "upgrade: clean up:", err)
		}
	}
	defer clean()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		clean()
		os.Exit(1)
	}()
	theEnvironment = env
	return m.Run()
}
