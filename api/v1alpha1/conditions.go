package v1alpha1

// Condition types of an AppService. Ready, Reconciling and Stalled are those of kstatus
// (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus): Reconciling and Stalled
// are abnormal-true, and present only while they are true.
const (
	// ConditionReady is True when every cluster of the plan runs the current generation and is
	// Ready, and no rollout is in progress or has failed. It is Unknown when the only clusters that
	// are not Ready cannot be observed. On a MemberCluster it is True when the member is connected
	// and responds.
	ConditionReady = "Ready"
	// ConditionReconciling is True while a change is in progress that needs no intervention.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when the AppService makes no progress until a user intervenes.
	ConditionStalled = "Stalled"
	// ConditionPlaced is True when the placement chose at least one cluster, and the bounds of the
	// chosen clusters allow spec.replicas.
	ConditionPlaced = "Placed"
	// ConditionSuspended is True while spec.suspend stops all changes, and absent otherwise.
	ConditionSuspended = "Suspended"
	// ConditionRolledOut is True when the template of the spec went through all stages of
	// spec.rollout. Clusters that could not be reached then may still get it later. The condition is
	// absent without spec.rollout, and while the AppService is being deleted.
	ConditionRolledOut = "RolledOut"
	// ConditionConfigured is True when the snapshots have the present content of all sources in
	// spec.configuration. It says nothing about the clusters. The condition is absent without
	// spec.configuration.
	ConditionConfigured = "Configured"
)

// Condition types of a MemberCluster, in addition to [ConditionReady].
const (
	// ConditionCredentialsValid is True when Fleetwright and the member accept the current
	// kubeconfig of the Secret. It describes the newest content: a connection with older
	// credentials may still work while it is False.
	ConditionCredentialsValid = "CredentialsValid"
	// ConditionAllocatableKnown is True when status.allocatable is current, which requires
	// permission to list the nodes of the member. Only placement by capacity depends on it.
	ConditionAllocatableKnown = "AllocatableKnown"
)

// Reasons of an AppService's conditions.
const (
	// ReasonReady: every cluster of the plan is Ready. No action is required.
	ReasonReady = "Ready"
	// ReasonProgressing: some clusters are still rolling out. Wait; status.clusters shows which
	// clusters.
	ReasonProgressing = "Progressing"
	// ReasonClustersFailed: on some clusters the workload failed or was refused. Read the reasons
	// in status.clusters.
	ReasonClustersFailed = "ClustersFailed"
	// ReasonClustersUnknown: some clusters cannot be observed, and the others are Ready. Check
	// those MemberClusters.
	ReasonClustersUnknown = "ClustersUnknown"
	// ReasonNoClusters: the placement chooses no cluster. The message and status.placement.excluded
	// have the reasons. Change spec.placement or the labels of a member, or add a member.
	ReasonNoClusters = "NoClusters"
	// ReasonPlaced: the placement chose clusters. status.clusters lists them.
	ReasonPlaced = "Placed"
	// ReasonInvalidPlacement: spec.placement or a stage of spec.rollout is invalid. The message has
	// the error. The clusters keep what they run until it is fixed. While only a stage is invalid,
	// the clusters keep their revision, and all other changes continue.
	ReasonInvalidPlacement = "InvalidPlacement"
	// ReasonReplicasOutOfBounds: the bounds of spec.replicaPolicy.rules contradict spec.replicas:
	// the sum of the minimums is higher, or the sum of the maximums is lower. The clusters run what
	// their bounds allow. Change the bounds or the replicas, or add a member.
	ReasonReplicasOutOfBounds = "ReplicasOutOfBounds"
	// ReasonSlicesRefused: the hub refuses the AppServiceSlices with the entries of more than 1000
	// clusters, for example because of a quota. What is not written is not delivered. Change what
	// refuses them. The message has the error.
	ReasonSlicesRefused = "SlicesRefused"
	// ReasonRevisionsRefused: the hub refuses the ControllerRevision with the new template, for
	// example because of a quota, or does not return ControllerRevisions. The clusters keep their
	// template, and the rollout of the revision before goes on. Change what refuses it. The message has
	// the error.
	ReasonRevisionsRefused = "RevisionsRefused"
	// ReasonSuspended: spec.suspend stops all changes. The clusters keep what they run.
	ReasonSuspended = "Suspended"
	// ReasonDeleting: the AppService is being deleted. Its workloads are being removed from the
	// clusters in status.clusters.
	ReasonDeleting = "Deleting"
)

// Reasons of the condition RolledOut. While it is False, Ready has the same reason, unless another
// problem comes first. The messages name the revision and the annotations literally.
// [ReasonRollingOut] is a reason of RolledOut too.
const (
	// ReasonCompleted: the revision went through all stages. No action is required.
	ReasonCompleted = "Completed"
	// ReasonSoaking: all clusters of a stage that can be updated are available, and the rollout
	// waits for spec.rollout.stages[].soakSeconds. Wait, or end the stage with the annotation
	// fleetwright.dev/promote.
	ReasonSoaking = "Soaking"
	// ReasonAwaitingApproval: the next stage begins after an approval. Annotate the AppService with
	// fleetwright.dev/approve.
	ReasonAwaitingApproval = "AwaitingApproval"
	// ReasonWaitingForClusters: a stage has no result, because too many of its clusters cannot be
	// reached or are broken. Fix them, or end the stage with the annotation fleetwright.dev/promote.
	ReasonWaitingForClusters = "WaitingForClusters"
	// ReasonRolloutPaused: no cluster gets another revision, because of spec.rollout.paused, the
	// annotation fleetwright.dev/pause or spec.suspend, or because the placement is invalid or the hub
	// is behind. The message says which. The revision may have been on its way to the clusters, or
	// back.
	ReasonRolloutPaused = "RolloutPaused"
	// ReasonStatusLost: the status was lost, as by a backup without status. No cluster gets another
	// revision until all clusters of the AppService have reported what they run, or for half a
	// minute. Wait.
	ReasonStatusLost = "StatusLost"
	// ReasonRollingBack: the revision failed or was aborted, or the spec has the template of the
	// stable revision again, and the clusters return to the stable revision. Wait.
	ReasonRollingBack = "RollingBack"
	// ReasonRolledBack: the revision failed or was aborted, and the clusters run the stable revision
	// again. The spec did not change. Change it, or annotate the AppService with
	// fleetwright.dev/retry.
	ReasonRolledBack = "RolledBack"
	// ReasonRolloutHalted: the revision failed, and each cluster keeps what it runs, because
	// spec.rollout.onFailure is Pause, or because there is no stable revision, or because the stable one
	// fails too, or because the hub has lost in a restore that the revision was taken back. Change the
	// spec, or annotate the AppService with fleetwright.dev/abort or fleetwright.dev/retry.
	ReasonRolloutHalted = "RolloutHalted"
)

// ReasonTakenBack is a value of status.rollout.failedReason: a cluster had answered with the revision, and
// now runs the one before it. So the hub has lost a failure or an abort, as by a restore, and the rollout
// is halted. Change the spec, or annotate the AppService with fleetwright.dev/abort or
// fleetwright.dev/retry.
const ReasonTakenBack = "TakenBack"

// Reasons of the condition Configured, and of an item of status.configuration. The worst of them is
// the reason of the condition. [ReasonHubBehind] is one of them too. No reason changes what runs. If
// an item has no snapshot yet, a new revision waits for it, and Ready is False with the same reason.
const (
	// ReasonConfigured: the snapshots have the present content of all sources. No action is
	// required.
	ReasonConfigured = "Configured"
	// ReasonConfigurationMissing: the source does not exist. Create it, or remove it from
	// spec.configuration.
	ReasonConfigurationMissing = "ConfigurationMissing"
	// ReasonSourceDeleted: the source was deleted. The last snapshot stays in use, for new clusters
	// too. Create the source again, or remove it from spec.configuration to withdraw its content.
	ReasonSourceDeleted = "SourceDeleted"
	// ReasonNotPropagated: the source does not have the label fleetwright.dev/propagate=true. Its
	// owner can add it.
	ReasonNotPropagated = "NotPropagated"
	// ReasonTypeRefused: the source must not leave the hub: its type is not one of those that
	// travel, it has the kubeconfig of a member, or it is in Fleetwright's own namespace. A Secret
	// that is updated in place also must keep its type. The message says which.
	ReasonTypeRefused = "TypeRefused"
	// ReasonTooLarge: the AppService would have more than 2 MiB of configuration, or more than 64
	// sources. Make them smaller, or divide the AppService.
	ReasonTooLarge = "TooLarge"
	// ReasonConfigurationForbidden: the operator has no permission for this kind in the namespace, a
	// quota or an admission policy refuses the snapshot, or the key cannot be used. Grant the
	// permissions in config/propagation, or do what the message says.
	ReasonConfigurationForbidden = "ConfigurationForbidden"
	// ReasonConfigurationUnavailable: the hub gave no usable answer to a request about the source, for
	// example because of a timeout, or because a webhook is down. It is tried again by itself, at
	// least once a minute. If it lasts, the message says which request failed, and why.
	ReasonConfigurationUnavailable = "ConfigurationUnavailable"
	// ReasonPropagationDisabled: the flag --propagate-from of the operator does not name the
	// namespace.
	ReasonPropagationDisabled = "PropagationDisabled"
	// ReasonSnapshotMissing: a snapshot in use was deleted, and the source does not have its content
	// any more. The clusters keep what they run, and nothing rolls back to it.
	ReasonSnapshotMissing = "SnapshotMissing"
	// ReasonNameTaken: an object with the name of the snapshot exists, and it is no snapshot of this
	// content. It is not changed. Delete it.
	ReasonNameTaken = "NameTaken"
	// ReasonConfigurationChanged: the source has another content, which is used when no change has
	// followed for a second. It is a reason of Reconciling too. Wait.
	ReasonConfigurationChanged = "ConfigurationChanged"
	// ReasonConfigurationChangesOften: the source has changed too often. It is read and used about
	// once a minute. Find out what changes it.
	ReasonConfigurationChangesOften = "ConfigurationChangesOften"
)

// Reasons of an entry in status.clusters. A Ready entry has no reason.
const (
	// ReasonConfigurationRefused: the member refused the copy of a ConfigMap or Secret (forbidden,
	// quota, admission). The cluster keeps its Deployment. Fleetwright retries within minutes.
	ReasonConfigurationRefused = "ConfigurationRefused"
	// ReasonPending: the cluster is in the plan, and the workload was not observed there yet.
	ReasonPending = "Pending"
	// ReasonRollingOut: the member's Deployment is rolling out, or does not exist yet, or was not
	// observed since the plan changed. As a reason of the conditions RolledOut and Ready, it means
	// that clusters get the revision of the spec, stage by stage. Wait.
	ReasonRollingOut = "RollingOut"
	// ReasonRolloutFailed: the member's Deployment exceeded its progress deadline. The message is
	// from the Deployment. As a reason of an event on an AppService, it means that a revision failed
	// on too many clusters of a stage, or was aborted. The message says where and why.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonConflict: an object with the same name exists on the member and does not belong to this
	// AppService. It is not changed. The message names its owner. Rename or delete one of the two.
	ReasonConflict = "Conflict"
	// ReasonAdoptionNotAllowed: an object with the same name exists on the member without Fleetwright's
	// labels, and the policy of the member, config/member/policy, does not let Fleetwright adopt objects
	// in that namespace. The message names the command with which an administrator of the member allows
	// it, kubectl label namespace NAMESPACE fleetwright.dev/adoption=allowed.
	ReasonAdoptionNotAllowed = "AdoptionNotAllowed"
	// ReasonHubBehind: a member has an object that this hub never planned: the hub lost an edit, or
	// an AppService with this name that was created later. The hub was restored from a backup.
	// Fleetwright creates, changes and deletes nothing on any cluster until a user accepts this.
	// Update the AppService first. Then set the annotation fleetwright.dev/accept-hub to the value
	// in the message. It is also a reason of the conditions Ready and Stalled.
	ReasonHubBehind = "HubBehind"
	// ReasonRefused: the member's API server refused the objects (forbidden, invalid, quota,
	// admission), or drops fields that its version or a feature gate does not support. The message
	// is its response, or names the fields. Remove dropped fields on that cluster with an override;
	// all other fields are delivered. Fleetwright retries within minutes.
	ReasonRefused = "Refused"
	// ReasonApplyFailed: applying the objects failed temporarily. Fleetwright retries with
	// back-off.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonClusterUnreachable: the cluster cannot be observed. The entry shows the last known
	// state.
	ReasonClusterUnreachable = "ClusterUnreachable"
	// ReasonClusterDetached: the Secret or the MemberCluster of the cluster is missing. The
	// workload keeps running, and Fleetwright does not manage it. Create the Secret again to manage
	// it again.
	ReasonClusterDetached = "ClusterDetached"
	// ReasonRemoving: the workload is being removed from the cluster.
	ReasonRemoving = "Removing"
	// ReasonRemovalPending: the removal of the workload from the cluster waits until new clusters
	// are ready, or until removals from other clusters have finished. The removal limit is a fifth
	// of the clusters that have applied the AppService, and at least one. Without an edit, the
	// removal also waits until another cluster of the plan is ready, or all of them if they divide
	// the replicas. The message names the clusters. Wait, or annotate the AppService with
	// fleetwright.dev/accept-unready=true or fleetwright.dev/accept-removals=NUMBER@GENERATION.
	ReasonRemovalPending = "RemovalPending"
	// ReasonRemovalNeedsApproval: the cluster keeps the workload until a user approves its removal.
	// Either more clusters than the removal limit allows stopped matching the placement within an
	// hour without an edit; or the workload was found on this cluster after a restore; or the
	// cluster joined again; or the plan chooses no cluster, and no other cluster is known to be
	// ready. To approve, annotate the AppService with the value in the message,
	// fleetwright.dev/accept-removals=NUMBER@GENERATION.
	ReasonRemovalNeedsApproval = "RemovalNeedsApproval"
	// ReasonFieldConflict: another manager on the member repeatedly changes fields that the
	// AppService sets. Fleetwright corrects them with back-off. The message names the manager and
	// the fields. Stop the manager, or remove the fields from the AppService.
	ReasonFieldConflict = "FieldConflict"
	// ReasonNamespaceTerminating: the namespace is being deleted on the member. Fleetwright creates
	// it again afterwards.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonInvalidOverride: an override cannot be applied to this cluster, for example because of
	// a patch that fails or an unknown variable. The message names the override and the error. The
	// cluster keeps what it runs.
	ReasonInvalidOverride = "InvalidOverride"
	// ReasonPodSecurityRefused: the pod template violates the Pod Security Standard of the namespace
	// on the hub: the label pod-security.kubernetes.io/enforce, or without it the operator's flag
	// --pod-security-level. The message has the violations. The cluster keeps what it runs, or does
	// not get the AppService. Correct the spec or the override; or an administrator of the hub labels
	// the namespace. If it is the reason of Ready, no cluster may have the template.
	ReasonPodSecurityRefused = "PodSecurityRefused"
	// ReasonRevisionMissing: the cluster keeps an older revision, and its ControllerRevision was
	// deleted or changed. The cluster keeps what it runs, and drift there is not corrected. The next
	// revision that the cluster gets ends this.
	ReasonRevisionMissing = "RevisionMissing"
	// ReasonLoadBalancerPending: all pods are ready, and the Service has no address yet. If this
	// persists, the member may have no controller for Services of type LoadBalancer.
	ReasonLoadBalancerPending = "LoadBalancerPending"
	// ReasonPortConflict: another Service of the member uses a nodePort. Choose another nodePort.
	ReasonPortConflict = "PortConflict"
)

// Reasons of an entry in status.clusters that come from the pods and the Deployment of the member,
// most severe first.
const (
	// ReasonImagePullBackOff: the image cannot be pulled.
	ReasonImagePullBackOff = "ImagePullBackOff"
	// ReasonCrashLoopBackOff: the container terminates repeatedly.
	ReasonCrashLoopBackOff = "CrashLoopBackOff"
	// ReasonContainerConfig: the container cannot be created, for example because its environment
	// references a ConfigMap or Secret that does not exist on the member. The message names the
	// object; create it on the member.
	ReasonContainerConfig = "CreateContainerConfigError"
	// ReasonFailedMount: a volume cannot be mounted, for example because its ConfigMap or Secret
	// does not exist on the member. The message names the object; create it on the member.
	// Attaching storage may take some time.
	ReasonFailedMount = "FailedMount"
	// ReasonPodsRefused: the member refuses to create the pods, because of a quota or an admission
	// policy.
	ReasonPodsRefused = "PodsRefused"
	// ReasonPodsUnschedulable: the pods fit on no node of the member.
	ReasonPodsUnschedulable = "PodsUnschedulable"
	// ReasonPodsNotReady: the containers run, but are not ready.
	ReasonPodsNotReady = "PodsNotReady"
)

// IsPodFailure reports whether a reason of an entry in status.clusters says that pods cannot run, and
// that waiting rarely helps. Each time such a reason begins, the AppService gets a Warning event.
func IsPodFailure(reason string) bool {
	switch reason {
	case ReasonImagePullBackOff, ReasonCrashLoopBackOff, ReasonContainerConfig, ReasonFailedMount:
		return true
	}
	return false
}

// IsOfPods reports whether a reason of an entry in status.clusters describes pods: a failure, or what they
// wait for.
func IsOfPods(reason string) bool {
	return IsPodFailure(reason) || reason == ReasonPodsUnschedulable || reason == ReasonPodsNotReady
}

// Reasons why a cluster is not in the plan of an AppService (status.placement.excluded).
const (
	// ReasonNotNamed: spec.placement.clusterNames does not list the cluster.
	ReasonNotNamed = "NotNamed"
	// ReasonSelectorMismatch: spec.placement.clusterSelector does not match the cluster's labels.
	ReasonSelectorMismatch = "SelectorMismatch"
	// ReasonUnschedulable: the MemberCluster has spec.unschedulable, so it gets no new AppServices.
	ReasonUnschedulable = "Unschedulable"
	// ReasonTaintNotTolerated: the MemberCluster has a taint in spec.taints that
	// spec.placement.tolerations does not tolerate.
	ReasonTaintNotTolerated = "TaintNotTolerated"
	// ReasonLimitReached: spec.placement.limit allows no more clusters.
	ReasonLimitReached = "LimitReached"
	// ReasonClusterNotReady: the MemberCluster is not Ready, so it gets no new AppServices.
	ReasonClusterNotReady = "ClusterNotReady"
	// ReasonClusterDeleting: the MemberCluster is being deleted.
	ReasonClusterDeleting = "ClusterDeleting"
	// ReasonNoSuchCluster: spec.placement.clusterNames lists a name that no MemberCluster has.
	ReasonNoSuchCluster = "NoSuchCluster"
)

// Reasons of a MemberCluster's Ready condition.
const (
	// ReasonConnected: the member responds and its caches are synced.
	ReasonConnected = "Connected"
	// ReasonConnecting: Fleetwright establishes the first connection since the operator started.
	ReasonConnecting = "Connecting"
	// ReasonUnreachable: the member does not respond. Its workloads are not changed. Fleetwright
	// retries.
	ReasonUnreachable = "Unreachable"
	// ReasonUnauthorized: the member refuses the credentials (401, or a TLS alert about the client
	// certificate). Renew the Secret.
	ReasonUnauthorized = "Unauthorized"
	// ReasonForbidden: the credentials lack permissions (403). Grant the permissions in
	// config/member.
	ReasonForbidden = "Forbidden"
	// ReasonUnhealthy: the member responds with errors, or is not a Kubernetes API server.
	ReasonUnhealthy = "Unhealthy"
	// ReasonIdentityChanged: the Secret leads to another cluster than before. Fleetwright changes
	// nothing there. To accept the new cluster, annotate the MemberCluster with
	// fleetwright.dev/accept-identity=UID.
	ReasonIdentityChanged = "IdentityChanged"
	// ReasonDuplicateCluster: the Secret leads to a cluster that already is another member. The
	// message names that member. Fleetwright does not use this Secret. Delete one of the two
	// Secrets.
	ReasonDuplicateCluster = "DuplicateCluster"
	// ReasonNoConnection: there is no accepted kubeconfig. See condition CredentialsValid.
	ReasonNoConnection = "NoConnection"
	// ReasonSecretMissing: the Secret of this member was deleted, is no longer selected, belongs to
	// another member, or is in a namespace that the operator no longer reads. The workloads keep
	// running, and AppServices show the cluster as Detached. Condition CredentialsValid and
	// status.placement.excluded of an AppService have this reason too. Create the Secret again to
	// manage the cluster again, or delete the MemberCluster to remove it permanently.
	ReasonSecretMissing = "SecretMissing"
)

// Reasons of a MemberCluster's CredentialsValid condition. A kubeconfig is refused before anything
// in it is used, and the messages never quote its content.
const (
	// ReasonAccepted: the kubeconfig is accepted and in use.
	ReasonAccepted = "Accepted"
	// ReasonRenewalFailed: the kubeconfig is accepted and in use. The last renewal of its token was
	// refused, or the renewals have failed for minutes. The message says why, and until when the
	// token is valid. Fleetwright retries.
	ReasonRenewalFailed = "RenewalFailed"
	// ReasonNotRenewable: the kubeconfig is accepted and in use. The Secret has the annotation
	// fleetwright.dev/renew-token, but there is nothing that Fleetwright can renew. Write a token
	// that expires, or remove the annotation.
	ReasonNotRenewable = "NotRenewable"
	// ReasonExpiringSoon: the kubeconfig is accepted and in use. Less than a tenth of the lifetime
	// of its credentials remains. Renew them.
	ReasonExpiringSoon = "ExpiringSoon"
	// ReasonExpired: the credentials have expired, according to the expiration time that they
	// state. Renew them.
	ReasonExpired = "Expired"
	// ReasonNotVerified: the kubeconfig was parsed, but the member has not accepted it yet.
	ReasonNotVerified = "NotVerified"
	// ReasonKubeconfigMissing: the Secret has none of the keys kubeconfig, value and value.yaml.
	ReasonKubeconfigMissing = "KubeconfigMissing"
	// ReasonKubeconfigTooLarge: the kubeconfig is larger than 64 KiB, or has more than 4096 tokens.
	ReasonKubeconfigTooLarge = "KubeconfigTooLarge"
	// ReasonKubeconfigMalformed: it is not a kubeconfig, its current-context does not exist, or a
	// token, key or certificate in it is malformed.
	ReasonKubeconfigMalformed = "KubeconfigMalformed"
	// ReasonExecRefused: it runs a program (exec). Use a token or a client certificate.
	ReasonExecRefused = "ExecRefused"
	// ReasonAuthProviderRefused: it uses an auth provider. Use a token or a client certificate.
	ReasonAuthProviderRefused = "AuthProviderRefused"
	// ReasonFileRefused: it references files. Embed them (kubectl config view --flatten).
	ReasonFileRefused = "FileRefused"
	// ReasonProxyRefused: it uses a proxy (proxy-url).
	ReasonProxyRefused = "ProxyRefused"
	// ReasonImpersonationRefused: it impersonates another user.
	ReasonImpersonationRefused = "ImpersonationRefused"
	// ReasonBasicAuthRefused: it contains a user name and password. Use a token or a client
	// certificate.
	ReasonBasicAuthRefused = "BasicAuthRefused"
	// ReasonServerRefused: its server is not an https URL, or has an address that members must not
	// have.
	ReasonServerRefused = "ServerRefused"
	// ReasonInsecureTLSRefused: it disables the verification of the server certificate, or has no
	// CA.
	ReasonInsecureTLSRefused = "InsecureTLSRefused"
	// ReasonNoCredentials: it has neither a token nor a client certificate.
	ReasonNoCredentials = "NoCredentials"
)

// Reasons of a MemberCluster's AllocatableKnown condition, in addition to [ReasonForbidden] and
// [ReasonUnhealthy].
const (
	// ReasonNodesListed: status.allocatable is the sum over the schedulable nodes of the member.
	ReasonNodesListed = "NodesListed"
)

// Reasons of events on AppServices and on their objects on the members, in addition to the reasons
// of entries, [ReasonRollingBack] and [ReasonRolledBack].
const (
	// ReasonRolloutStarted: a revision is to go through the stages of spec.rollout, or the clusters
	// are to return to the stable revision, because the spec has its template again.
	ReasonRolloutStarted = "RolloutStarted"
	// ReasonSuperseded: an edit replaced the revision of a rollout that was not over.
	ReasonSuperseded = "Superseded"
	// ReasonStageStarted: clusters of a stage get the revision.
	ReasonStageStarted = "StageStarted"
	// ReasonApprovalNeeded: a stage waits for approval. The message has the annotation.
	ReasonApprovalNeeded = "ApprovalNeeded"
	// ReasonStageCompleted: the stage has proven the revision, and the next stage may begin.
	ReasonStageCompleted = "StageCompleted"
	// ReasonRolloutCompleted: the revision went through all stages.
	ReasonRolloutCompleted = "RolloutCompleted"
	// ReasonDriftCorrected: another manager had changed a field that the AppService sets.
	// Fleetwright corrected it.
	ReasonDriftCorrected = "DriftCorrected"
	// ReasonImplausibleNumber: an object on a member has a revision, a serial or a placement far above
	// all that this hub has given. The number is ignored. Find out who writes its annotations.
	ReasonImplausibleNumber = "ImplausibleNumber"
	// ReasonAdopted: Fleetwright adopted an existing object.
	ReasonAdopted = "Adopted"
	// ReasonAdoptionRestartsPods: Fleetwright is about to adopt a Deployment and to replace its
	// pods, because its pod template differs from the AppService. The event is sent before the
	// change. conflictPolicy AdoptIfIdentical refuses such an adoption.
	ReasonAdoptionRestartsPods = "AdoptionRestartsPods"
	// ReasonRemoved: Fleetwright deleted an object on a member.
	ReasonRemoved = "Removed"
	// ReasonOrphaned: Fleetwright kept an object running on a member and removed its own labels and
	// annotations.
	ReasonOrphaned = "Orphaned"
	// ReasonAbandoned: the AppService was released from a cluster by annotation, before the
	// workload was removed there.
	ReasonAbandoned = "Abandoned"
	// ReasonNamespaceOrCRDDeleted: the AppService was deleted together with its namespace or its
	// CRD, which is the subject of the event. The members keep what they run.
	ReasonNamespaceOrCRDDeleted = "NamespaceOrCRDDeleted"
)

// Reasons of events on Secrets.
const (
	// ReasonNameConflict: another Secret already defines a member with that name. Rename one of the
	// two.
	ReasonNameConflict = "NameConflict"
	// ReasonTokenRenewed: Fleetwright wrote a new token to the Secret, as the annotation
	// fleetwright.dev/renew-token asks for.
	ReasonTokenRenewed = "TokenRenewed"
)

// Reasons of events on MemberClusters, in addition to the reasons of their conditions.
const (
	// ReasonClusterProfileConflict: the ClusterProfile with the member's name belongs to another
	// cluster manager, according to its spec or its label. It is not changed, and this member is
	// not published. Rename the member, or delete that ClusterProfile.
	ReasonClusterProfileConflict = "ClusterProfileConflict"
)
