// Package framework is what the end-to-end suites share: fleets of real clusters, AppServices on
// them, and waiting for conditions. Package environment, below it, creates the clusters and runs
// the operator.
//
// # What holds
//
//   - A test gets its fleet as a value. A suite whose tests can use the same fleet one after the
//     other declares a [Pool]: the first test that finds no free fleet creates one. No test depends
//     on the order of tests.
//   - Helpers that take a testing.TB end the test when they fail, and log the state of the fleet.
//     Helpers that take a context return an error.
//   - Helpers also work in clean-up functions, when the context of the test has ended.
//
// # Usage
//
//	var env = ...
//
//	func TestMain(m *testing.M) {
//		flag.Parse()
//		os.Exit(framework.Main(m, framework.MainOptions{Name: "upgrade", Environment: env}))
//	}
//
//	func TestEdit(t *testing.T) {
//		f, err := framework.New(t.Context(), env, "north", "south")
//		...
//		app := f.CreateApp(t, framework.NewAppService("default", "web"))
//		f.EditApp(t, app, framework.Image("web:2"), framework.Replicas(4))
//		f.Eventually(t, "the AppService to be Ready", func(ctx context.Context) error {
//			return f.CheckReady(ctx, app)
//		})
//	}
package framework
