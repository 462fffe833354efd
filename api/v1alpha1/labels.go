package v1alpha1

const (
	// LabelManagedBy has the value [ManagedBy] on every object that Fleetwright creates on a
	// member. The cache of a member holds only objects with this label.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of [LabelManagedBy], and the field manager of every server-side apply.
	ManagedBy = "fleetwright"
	// LabelAppService is the name of the owning AppService, on objects and pods of a member, and on
	// AppServiceSlices and ControllerRevisions of the hub. The Deployment and the Service use it as
	// their selector. An adopted Deployment keeps its own selector and its pods.
	LabelAppService = "fleetwright.dev/appservice"
	// LabelSlot is the number of an AppServiceSlice.
	LabelSlot = "fleetwright.dev/slot"
	// LabelVersion is the version of the operator, on the Lease of its leader election.
	LabelVersion = "app.kubernetes.io/version"
	// LabelPropagate, on a ConfigMap or Secret of the hub, with the value "true": its owner agrees
	// that it leaves the hub. Both this label and spec.configuration are needed. Snapshots have it
	// with the value [PropagateSnapshot], so that one watch finds both.
	LabelPropagate = "fleetwright.dev/propagate"
	// PropagateSnapshot is the value of [LabelPropagate] on a snapshot. It cannot be a source itself.
	PropagateSnapshot = "snapshot"
	// LabelAdoption, on a Namespace of a member, with the value [AdoptionAllowed]: the member agrees that
	// Fleetwright adopts objects of others there. It is needed only if the member has the policy of
	// config/member/policy.
	LabelAdoption = "fleetwright.dev/adoption"
	// AdoptionAllowed is the value of [LabelAdoption].
	AdoptionAllowed = "allowed"

	// AnnotationHub is the identity of the hub that owns a member's object. An object of another
	// hub is never changed.
	AnnotationHub = "fleetwright.dev/hub"
	// AnnotationUID is the UID of the AppService that owns a member's object.
	AnnotationUID = "fleetwright.dev/appservice-uid"
	// AnnotationGeneration is the generation of the AppService that a member's object was last
	// applied for. This annotation and the next two are the stamp. A difference in the stamp alone
	// does not cause a write.
	AnnotationGeneration = "fleetwright.dev/generation"
	// AnnotationSpecHash is a hash of the AppService's spec that a member's object was last applied
	// for. If status.plannedSpecs does not account for it, the hub is behind, and nothing is
	// changed.
	AnnotationSpecHash = "fleetwright.dev/spec-hash"
	// AnnotationCreated is the creation time of the AppService that a member's object was last
	// applied for. A time later than the creation time on the hub means that the hub is behind.
	AnnotationCreated = "fleetwright.dev/appservice-created"
	// AnnotationHash is a hash of the configuration that was last applied to a member's object. It
	// detects fields that are no longer desired.
	AnnotationHash = "fleetwright.dev/applied-hash"
	// AnnotationRevision, on a member's Deployment, is the revision that it was last applied for. A
	// difference in it alone does not cause a write.
	AnnotationRevision = "fleetwright.dev/revision"
	// AnnotationPlacement is the number of the placement that a member's object was last applied for:
	// the placement of the entry. A removal with an earlier one is no evidence about the object. A
	// difference in it causes a write only after a removal was withdrawn.
	AnnotationPlacement = "fleetwright.dev/placement"
	// AnnotationOwnedKinds, on a member's Deployment, lists the kinds of the optional objects that
	// Fleetwright created, separated by commas: HorizontalPodAutoscaler, PodDisruptionBudget. It is
	// absent if there are none.
	AnnotationOwnedKinds = "fleetwright.dev/owned-kinds"

	// AnnotationCopies, on a member's Deployment, lists its copies of ConfigMaps and Secrets of the
	// hub, separated by commas, as KIND/NAME or, if it is updated in place, KIND/NAME@SERIAL.
	// Deployment/UID is added after they were applied for this Deployment.
	AnnotationCopies = "fleetwright.dev/copies"

	// AnnotationDigest, on a snapshot, is the digest of its content, with the key of the hub. This
	// annotation and the next four describe a snapshot, so that its content need not be read.
	AnnotationDigest = "fleetwright.dev/digest"
	// AnnotationSource, on a snapshot, is the name of its source.
	AnnotationSource = "fleetwright.dev/source"
	// AnnotationType, on the snapshot of a Secret, is its type.
	AnnotationType = "fleetwright.dev/type"
	// AnnotationSize, on a snapshot, is the size of its content in bytes.
	AnnotationSize = "fleetwright.dev/size"
	// AnnotationSerial, on a snapshot of a source that is updated in place, is the serial that its
	// content had when the snapshot was created.
	AnnotationSerial = "fleetwright.dev/serial"

	// AnnotationRenewToken, on the kubeconfig Secret of a member, with the value "true": Fleetwright
	// renews the ServiceAccount token in it before it expires, and writes the new one to the Secret.
	AnnotationRenewToken = "fleetwright.dev/renew-token"

	// AnnotationSecret, on a MemberCluster, is the Secret that it was created from, as
	// NAMESPACE/NAME. An administrator created a MemberCluster without it, before its Secret
	// existed.
	AnnotationSecret = "fleetwright.dev/secret"
	// AnnotationAcceptIdentity, on a MemberCluster, accepts that the Secret leads to another
	// cluster. Its value is the UID of that cluster. Fleetwright removes the annotation when
	// status.clusterID has that UID.
	AnnotationAcceptIdentity = "fleetwright.dev/accept-identity"
	// AnnotationClusterID, on a kubeconfig Secret that kubectl appsvc join wrote, is the UID of the
	// namespace kube-system of the cluster. Another cluster cannot take over the Secret.
	AnnotationClusterID = "fleetwright.dev/cluster-id"

	// AnnotationAbandon, on an AppService, lists clusters, separated by commas, that its removal no
	// longer waits for. The MemberCluster keeps a tombstone until the cluster is reachable again.
	// If the AppService was deleted, its objects there are then deleted. If it still exists, the
	// cluster gets an entry with reason RemovalNeedsApproval. Remove the annotation afterwards.
	AnnotationAbandon = "fleetwright.dev/abandon"
	// AnnotationAcceptRemovals, on an AppService, approves removals, as NUMBER@GENERATION: that
	// number of removals may start while the AppService has that generation, including those that
	// need approval, and regardless of the removal limit. Each removal uses up one. The next edit
	// ends the approval.
	AnnotationAcceptRemovals = "fleetwright.dev/accept-removals"
	// AnnotationAcceptUnready, on an AppService, with the value "true": removals and scale-downs do
	// not wait until other clusters are ready. Remove the annotation afterwards.
	AnnotationAcceptUnready = "fleetwright.dev/accept-unready"
	// AnnotationAcceptHub, on an AppService, accepts that the hub is behind: objects on members are
	// overwritten with the current state of the hub. Its value is a list of tokens, separated by
	// commas, from the messages of the AppService. Each token identifies one stamp, so the
	// annotation does not accept the losses of a later restore.
	AnnotationAcceptHub = "fleetwright.dev/accept-hub"
	// AnnotationAcceptConfiguration, on an AppService, accepts that the hub is behind with content
	// that is updated in place, as SNAPSHOT@SERIAL: that snapshot of the hub overwrites the copies
	// with that serial. Several values are separated by commas. A value has its effect once.
	AnnotationAcceptConfiguration = "fleetwright.dev/accept-configuration"

	// AnnotationApprove, on an AppService, approves stages of a rollout, as REVISION/STAGE. Several
	// values are separated by commas. An approval counts if status.rollout showed the revision and the
	// stage when it was set, and if it is still set when the stage begins. Any other is refused, and
	// never counts later, unless it is removed and set again.
	AnnotationApprove = "fleetwright.dev/approve"
	// AnnotationPromote, on an AppService, ends a stage now, as REVISION/STAGE, or all stages, as
	// REVISION: without approval, soak, slow start and quorum. maxUnavailable and maxFailures still
	// apply. What counts is the same as for an approval.
	AnnotationPromote = "fleetwright.dev/promote"
	// AnnotationPause, on an AppService, pauses the rollout of the revision that is its value.
	AnnotationPause = "fleetwright.dev/pause"
	// AnnotationAbort, on an AppService, fails the revision that is its value.
	AnnotationAbort = "fleetwright.dev/abort"
	// AnnotationRetry, on an AppService, rolls out the template of the failed revision that is its
	// value again, as a new revision.
	AnnotationRetry = "fleetwright.dev/retry"

	// TaintDrain is the taint, with effect NoExecute, by which kubectl appsvc drain moves the
	// AppServices of a cluster to others.
	TaintDrain = "fleetwright.dev/drain"

	// Finalizer keeps an AppService until its objects are deleted on all members.
	Finalizer = "fleetwright.dev/cleanup"
)
