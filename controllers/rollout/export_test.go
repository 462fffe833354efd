package rollout

// StagesOf returns the stage of each cluster.
func StagesOf(in Input) map[string]string {
	in = in.Recover()
	stages := map[string]string{}
	for _, c := range in.planRevisions(in.planEntries()).clusters {
		stages[c.entry.Name] = c.stage.Name
	}
	return stages
}
