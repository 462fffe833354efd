// Package fields tests each field of the spec of an AppService, set and unset: an AppService is created
// with the field, the field is changed, and then removed. What the member has then must equal what it
// has of an AppService that never had the field: the labels, the annotations and the spec of the
// Deployment, the Service, the autoscaler and the disruption budget. Meanwhile, nothing may be corrected
// as drift: nobody else changes the member.
//
// The fields come from the schema of the CRD, and so do their values. So a new field is tested without a
// change here, unless it needs a value that the schema does not describe, or another field beside it:
// then the test fails, and tables.yaml gets a line. An exception that does not hold fails the test, too,
// and so does a context that no field needs. A dry run on the hub and on the member shows whether a spec
// is valid.
//
//	go test ./e2e/fields -v -count=1                              # all fields; make e2e runs a sample
//	go test ./e2e/fields -v -count=1 -field '^volumes'            # these fields
package fields

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
)

var (
	binFlag   = flag.String("bin", "../../bin", "directory of the programs")
	dirFlag   = flag.String("dir", ".fields", "directory of the clusters' files")
	fieldFlag = flag.String("field", "", "test only the fields that match this regular expression")
)

// config is the directory of the shipped manifests.
const config = "../../config"

// env is where the test creates its fleet. Only TestMain sets it.
var env *kwok.Environment

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(logr.Discard()) // only libraries log
	var err error
	if env, err = kwok.New(kwok.Options{Dir: *dirFlag, Bin: *binFlag, Config: config}); err != nil {
		fmt.Fprintln(os.Stderr, "fields:", err)
		os.Exit(1)
	}
	os.Exit(framework.Main(m, framework.MainOptions{Name: "fields", Environment: env}))
}
