package stages

// Refusals are the violations of pod security, by revision and then by cluster. They have no
// revision that its cluster runs: what runs is never refused.
type Refusals map[int64]map[string]Refusal

// Refusal says why a cluster must not get a revision.
type Refusal struct {
	// Violation is what the pods of the revision violate there.
	Violation string
	// IsByLaterPolicy is set if the pods comply with the policy of the revision. The present policy
	// forbids them, because the cluster does not run the AppService yet.
	IsByLaterPolicy bool
}

// Of returns why a cluster must not get a revision, or "".
func (r Refusals) Of(revision int64, cluster string) string { return r[revision][cluster].Violation }

// contents says which revisions exist, and which of them a cluster must not get.
type contents struct {
	Revisions
	status *state
}

// stable returns the stable revision, or 0 if there is none to return to.
func (o *contents) stable() int64 {
	if o.IsStableMissing && o.status.StableRevision != o.Revision {
		return 0
	}
	return o.status.StableRevision
}

// isMissing reports whether no cluster may get a revision, because a snapshot of it is missing, or
// because it is not known yet which snapshots exist.
func (o *contents) isMissing(revision int64) bool {
	return o.AreSnapshotsUnlisted || o.IsRevisionMissing && revision == o.Revision
}

// isUnread reports whether a cluster has no revision, and gets none because its content cannot be read.
func (o *contents) isUnread(c *cluster) bool {
	return o.AreRevisionsUnread && c.Entry.Revision == 0
}

// isRefused reports whether pod security refuses a revision on a cluster.
func (o *contents) isRefused(c *cluster, revision int64) bool {
	return c.Entry.Revision != revision && o.Refusals.Of(revision, c.Entry.Name) != ""
}
