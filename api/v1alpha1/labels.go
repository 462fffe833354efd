package v1alpha1

const (
	// LabelManagedBy marks, with the value [ManagedBy], every object that Fleetwright made on a member.
	// A member's cache holds only objects with this label.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of [LabelManagedBy], and the field manager of every server-side apply.
	ManagedBy = "fleetwright"
	// LabelAppService names, on a member's object and its pods, the AppService that it belongs to. It is
	// the selector of the member's Deployment and Service, unless the Deployment was adopted: that keeps its selector and its pods.
	LabelAppService = "fleetwright.dev/appservice"

	// AnnotationHub holds, on a member's object, the identity of the hub that owns it. An object of
	// another hub is never touched.
	AnnotationHub = "fleetwright.dev/hub"
	// AnnotationUID holds, on a member's object, the UID of the AppService that owns it.
	AnnotationUID = "fleetwright.dev/appservice-uid"
	// AnnotationGeneration holds, on a member's object, the generation of the AppService that it was last
	// applied for. The stamp, which is this annotation and the next two, is not compared: it is written when
	// something else is.
	AnnotationGeneration = "fleetwright.dev/generation"
	// AnnotationSpecHash holds, on a member's object, a hash of the spec of the AppService that it was last applied
	// for. If status.plannedSpecs does not account for it, the hub is behind, and nothing is changed.
	AnnotationSpecHash = "fleetwright.dev/spec-hash"
	// AnnotationCreated holds, on a member's object, when the AppService that it was last applied for was created. A
	// time later than that of the hub's AppService means that the hub is behind.
	AnnotationCreated = "fleetwright.dev/appservice-created"
	// AnnotationHash holds, on a member's object, a hash of what was last applied, so that a field that is
	// no longer wanted is noticed.
	AnnotationHash = "fleetwright.dev/applied-hash"
	// AnnotationOwnedKinds holds, on a member's Deployment, the kinds of what was made beside it and a Service, separated by commas:
	// HorizontalPodAutoscaler, PodDisruptionBudget. It is absent where there is nothing of the kind.
	AnnotationOwnedKinds = "fleetwright.dev/owned-kinds"

	// AnnotationSecret, on a MemberCluster, names the Secret that it was made from, as NAMESPACE/NAME. A MemberCluster
	// without it was made by an administrator, ahead of its Secret.
	AnnotationSecret = "fleetwright.dev/secret"
	// AnnotationAcceptIdentity, on a MemberCluster, names the UID of the cluster that the member is from now on. It is
	// how an administrator acknowledges that another cluster answers under the same Secret. Fleetwright removes it once
	// status.clusterID has that UID.
	AnnotationAcceptIdentity = "fleetwright.dev/accept-identity"

	// AnnotationAbandon, on an AppService, names clusters, separated by commas, that its removal does not wait for any more. Its
	// MemberCluster has a tombstone until the cluster is back. What is left there is then removed if the AppService was deleted;
	// if it lives, it becomes an entry that is RemovalNeedsApproval. Take the annotation off afterwards.
	AnnotationAbandon = "fleetwright.dev/abandon"
	// AnnotationAcceptRemovals, on an AppService, accepts removals, as NUMBER@GENERATION: so many in all may begin while the AppService has that
	// generation, also those that are held, and more than a fifth of the clusters at a time. It is used up, and ends with the next edit.
	AnnotationAcceptRemovals = "fleetwright.dev/accept-removals"
	// AnnotationAcceptUnready, on an AppService, with the value "true": what leaves a cluster does not wait until what arrives elsewhere is ready.
	// Take it off afterwards.
	AnnotationAcceptUnready = "fleetwright.dev/accept-unready"
	// AnnotationAcceptHub, on an AppService, accepts that the hub is behind: objects on members are overwritten with what the hub has
	// now. Its value is a list of tokens, separated by commas, that the messages of the AppService print. Each token
	// names one stamp, so the annotation does not accept what a later restore loses.
	AnnotationAcceptHub = "fleetwright.dev/accept-hub"

	// Finalizer keeps an AppService until no member holds anything of it.
	Finalizer = "fleetwright.dev/cleanup"
)
