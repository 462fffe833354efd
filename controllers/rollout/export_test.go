package rollout

import "github.com/fleetwright/fleetwright/controllers/rollout/stages"

// StagesOf returns the stage of each cluster.
func StagesOf(in Input) map[string]string {
	in = in.Recover()
	plans := in.entries().PlanAll(in.clusterNames())
	return stages.Decide(in.stages(in.hold(plans)), plans).StageNames()
}
