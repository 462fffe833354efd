package command_test

import (
	"strings"
	"testing"
)

// A name is accepted as kubectl prints it, so it can be passed on from kubectl get -o name.
func TestNames_as_kubectl_prints_them(t *testing.T) {
	createStaged(t, "named")
	createMembers(t)
	for _, test := range []struct {
		args, want string
		code       int
	}{
		{"status appservice.fleetwright.dev/named", "default/named  AwaitingApproval", 3},
		{"rollout status appsvc/named --watch=false", "default/named  AwaitingApproval", 3},
		{"why appservices/named membercluster.fleetwright.dev/east", "east\n", 0},
		{"diff appservice/named mc/east", "", 0},
		{"rollout history appservice/named", "nginx:2", 0},
		{"rollout approve appservice.fleetwright.dev/named --stage eu", "appservice/named: approved stage eu of revision 2", 0},
		{"restart appservice/named", "appservice/named: restarted", 0},
		{"clusters memberclusters/south", "south   False", 0},
		{"cordon membercluster.fleetwright.dev/south mc/east", "membercluster/south cordoned\nmembercluster/east cordoned\n", 0},
		{"__complete status appsvc/", "appsvc/named\n", 0},
		{"__complete why appservice/named mc/s", "mc/south\n", 0},
		{"__complete rollout approve appservice/named --stage ", "canary\neu\n", 0},
		{"__complete logs appservice/named --cluster east,mc/", "east,mc/north\n", 0},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Setenv("KUBECONFIG", hubKubeconfig)
			if got := runWith(t, "", strings.Split(test.args, " ")...); got.code != test.code || !strings.Contains(got.out, test.want) {
				t.Errorf("%+v, want exit code %d and %q", got, test.code, test.want)
			}
		})
	}
	t.Run("logs --cluster", func(t *testing.T) {
		if got := run(t, "logs", "named", "--cluster", "membercluster.fleetwright.dev/west"); !strings.Contains(got.errOut, "named does not run on west: ") {
			t.Errorf("%+v", got)
		}
		if got := run(t, "events", "named", "--cluster", "deployment/east"); got.code != 1 || !strings.Contains(got.errOut, `"deployment/east" is not the name of a MemberCluster: "deployment" is another kind`) {
			t.Errorf("%+v", got)
		}
	})
}
