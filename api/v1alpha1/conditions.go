package v1alpha1

// Condition types of an AppService. Ready, Reconciling and Stalled are those of kstatus
// (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus): Reconciling and Stalled are
// abnormal-true, and present only while they are true.
const (
	// ConditionReady is True when every cluster of the plan runs the present generation and is Ready;
	// Unknown when the only clusters that are not Ready cannot be observed. A MemberCluster has it too: True
	// when it is connected and answers.
	ConditionReady = "Ready"
	// ConditionReconciling is True while something is under way that needs nobody's help.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when nothing more will happen until somebody changes something.
	ConditionStalled = "Stalled"
	// ConditionPlaced is True when the placement chose at least one cluster, and the bounds of all that are chosen let them run what is asked for.
	ConditionPlaced = "Placed"
	// ConditionSuspended is True, and present only then, while spec.suspend stops all changes.
	ConditionSuspended = "Suspended"
)

// Condition types of a MemberCluster, beside [ConditionReady].
const (
	// ConditionCredentialsValid is True when the kubeconfig that the Secret holds now is accepted and the
	// member accepts it. It is about the newest content: an older connection may go on working while it is False.
	ConditionCredentialsValid = "CredentialsValid"
	// ConditionAllocatableKnown is True when status.allocatable is: the credentials may list the member's nodes.
	// Nothing but placement by capacity depends on it.
	ConditionAllocatableKnown = "AllocatableKnown"
)

// Reasons of an AppService's conditions.
const (
	// ReasonReady: every cluster of the plan is Ready. Nothing to do.
	ReasonReady = "Ready"
	// ReasonProgressing: some clusters are still rolling out. Wait; the rows say which.
	ReasonProgressing = "Progressing"
	// ReasonClustersFailed: on some clusters the workload failed or was refused. Read the rows' reasons.
	ReasonClustersFailed = "ClustersFailed"
	// ReasonClustersUnknown: some clusters cannot be observed, the others are Ready. Look at those MemberClusters.
	ReasonClustersUnknown = "ClustersUnknown"
	// ReasonNoClusters: the placement chooses no cluster. status.placement.excluded says why not; change
	// spec.placement or a member's labels, or add a member.
	ReasonNoClusters = "NoClusters"
	// ReasonPlaced: the placement chose clusters; they are the rows of status.clusters.
	ReasonPlaced = "Placed"
	// ReasonInvalidPlacement: spec.placement cannot be understood. The message says what; the clusters keep
	// what they run until it is mended.
	ReasonInvalidPlacement = "InvalidPlacement"
	// ReasonReplicasOutOfBounds: the bounds of spec.replicaPolicy.rules and spec.replicas contradict each other: the least of all clusters is more, or the most
	// is less. The clusters run what their bounds let them. Change the bounds or the replicas, or add a member.
	ReasonReplicasOutOfBounds = "ReplicasOutOfBounds"
	// ReasonSuspended: spec.suspend stops all changes. The clusters keep what they run.
	ReasonSuspended = "Suspended"
	// ReasonDeleting: the AppService is being deleted; its workloads are being removed from the clusters in
	// the rows.
	ReasonDeleting = "Deleting"
)

// Reasons of a cluster's row in an AppService's status. A Ready row has none.
const (
	// ReasonPending: the cluster is in the plan and nothing has been observed there yet.
	ReasonPending = "Pending"
	// ReasonRollingOut: the member's Deployment is rolling out.
	ReasonRollingOut = "RollingOut"
	// ReasonRolloutFailed: the member's Deployment gave up. The message is the Deployment's own.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonConflict: an object of that name exists on the member and is not this AppService's. It is left
	// untouched. Rename or remove one of the two; the message says whose it is.
	ReasonConflict = "Conflict"
	// ReasonHubBehind: a member holds what this hub has never planned: an edit that the hub has lost, or an AppService of this name
	// that was created later. The hub was restored from a backup. Nothing is created, changed or deleted on any cluster until somebody accepts
	// it by annotation fleetwright.dev/accept-hub, with the value that the message prints. Bring the AppService up to date first. It is
	// also a reason of the conditions Ready and Stalled.
	ReasonHubBehind = "HubBehind"
	// ReasonRefused: the member's API server refused the objects (forbidden, invalid, quota, admission), or drops fields of them that its
	// version or a feature gate turns off. The message is its answer, or names the fields; leave those out there by an override. All
	// else is delivered then. It is tried again within minutes.
	ReasonRefused = "Refused"
	// ReasonApplyFailed: the objects could not be sent for a reason that may pass. It is tried again, more
	// and more slowly.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonClusterUnreachable: the cluster cannot be observed; the row shows what was known last.
	ReasonClusterUnreachable = "ClusterUnreachable"
	// ReasonClusterDetached: the cluster's Secret or its MemberCluster is gone. Its workload is left running and is no longer
	// looked after. Add the Secret again to take it back.
	ReasonClusterDetached = "ClusterDetached"
	// ReasonRemoving: the workload is being removed from the cluster.
	ReasonRemoving = "Removing"
	// ReasonRemovalPending: the workload is to be removed from the cluster, after it is ready where it arrives, and after it has been removed
	// from others: an AppService leaves at most a fifth of the clusters that have taken it on at the same time. Without an edit it also waits
	// until another cluster of the plan is ready, or all of them where they divide the replicas. The message says which. Wait, or annotate it
	// with fleetwright.dev/accept-unready=true or fleetwright.dev/accept-removals=NUMBER@GENERATION.
	ReasonRemovalPending = "RemovalPending"
	// ReasonRemovalNeedsApproval: clusters no longer fit the placement because they changed, not because it was edited, and within an hour they are more
	// than a fifth of those that run the AppService; or the workload was found on this one after a restore, or it has joined again; or the plan
	// chooses no cluster, and no other one is known to be ready. They keep it until that is acknowledged: annotate the AppService with the value
	// that the message has, fleetwright.dev/accept-removals=NUMBER@GENERATION.
	ReasonRemovalNeedsApproval = "RemovalNeedsApproval"
	// ReasonFieldConflict: somebody on the member changes fields that the AppService sets, again and again. They are put back more and
	// more rarely. The message says who and which; have that stop, or leave the fields out of the AppService.
	ReasonFieldConflict = "FieldConflict"
	// ReasonNamespaceTerminating: the namespace is being deleted on the member. It is made again when it is gone.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonInvalidOverride: an override cannot be applied for this cluster: a patch that does not fit, a variable that is not known. The message names it
	// and says what is wrong. The cluster keeps what it runs.
	ReasonInvalidOverride = "InvalidOverride"
	// ReasonLoadBalancerPending: all pods are ready, and the Service has no address yet. Where that lasts, the member has nothing that gives
	// addresses to Services of type LoadBalancer.
	ReasonLoadBalancerPending = "LoadBalancerPending"
	// ReasonPortConflict: a nodePort is taken by another Service of the member.
	ReasonPortConflict = "PortConflict"
)

// Reasons of a cluster's row that are the member's own: those of its pods and of its Deployment, what is worst first.
const (
	// ReasonImagePullBackOff: the image cannot be pulled.
	ReasonImagePullBackOff = "ImagePullBackOff"
	// ReasonCrashLoopBackOff: the container ends again and again.
	ReasonCrashLoopBackOff = "CrashLoopBackOff"
	// ReasonContainerConfig: the container cannot be created, for example because it takes environment variables from a ConfigMap or
	// Secret that the member lacks. The message names it; create it on the member.
	ReasonContainerConfig = "CreateContainerConfigError"
	// ReasonFailedMount: a volume cannot be mounted, for example because the member lacks the ConfigMap or Secret that it holds. The
	// message names it; create it on the member. Storage may take some time to be attached.
	ReasonFailedMount = "FailedMount"
	// ReasonPodsRefused: the member refuses to make the pods: quota, or an admission policy.
	ReasonPodsRefused = "PodsRefused"
	// ReasonPodsUnschedulable: no node of the member can take the pods.
	ReasonPodsUnschedulable = "PodsUnschedulable"
	// ReasonPodsNotReady: the containers run, and are not ready.
	ReasonPodsNotReady = "PodsNotReady"
)

// Reasons why a cluster is not in an AppService's plan (status.placement.excluded).
const (
	// ReasonNotNamed: spec.placement.clusterNames does not list the cluster.
	ReasonNotNamed = "NotNamed"
	// ReasonSelectorMismatch: spec.placement.clusterSelector does not match the cluster's labels.
	ReasonSelectorMismatch = "SelectorMismatch"
	// ReasonUnschedulable: the MemberCluster has spec.unschedulable, so it gets no new AppServices.
	ReasonUnschedulable = "Unschedulable"
	// ReasonTaintNotTolerated: the MemberCluster has a taint in spec.taints that spec.placement.tolerations does not tolerate.
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
	// ReasonConnected: the member answers and its caches are in step.
	ReasonConnected = "Connected"
	// ReasonConnecting: the first connection since the operator started is being made.
	ReasonConnecting = "Connecting"
	// ReasonUnreachable: the member does not answer. Its workloads are left as they are; it is tried again.
	ReasonUnreachable = "Unreachable"
	// ReasonUnauthorized: the member refuses the credentials (401, or a TLS alert about the client certificate). Renew the Secret.
	ReasonUnauthorized = "Unauthorized"
	// ReasonForbidden: the credentials may not do what is needed (403). Grant what config/member lists.
	ReasonForbidden = "Forbidden"
	// ReasonUnhealthy: the member answers, but with errors or with something that is no Kubernetes API server.
	ReasonUnhealthy = "Unhealthy"
	// ReasonIdentityChanged: another cluster answers than the one that the member is known to be. Nothing is done on it. If it
	// is meant to be the member from now on, annotate the MemberCluster with fleetwright.dev/accept-identity=UID.
	ReasonIdentityChanged = "IdentityChanged"
	// ReasonDuplicateCluster: the Secret leads to a cluster that is another member already; the message names it. Nothing is done
	// by this one. Remove one of the two Secrets.
	ReasonDuplicateCluster = "DuplicateCluster"
	// ReasonNoConnection: there is no accepted kubeconfig to connect with; see CredentialsValid.
	ReasonNoConnection = "NoConnection"
	// ReasonSecretMissing: no Secret makes this member any more: it was deleted, it is no longer selected, the operator no longer reads its
	// namespace, or it holds another member.
	// The workloads keep running, and AppServices show the cluster as Detached. Condition CredentialsValid and status.placement.excluded
	// of an AppService have this reason too. Create the Secret again to take the cluster back; delete the MemberCluster to remove it
	// for good.
	ReasonSecretMissing = "SecretMissing"
)

// Reasons of a MemberCluster's CredentialsValid condition. The refusals are made before anything in the
// kubeconfig is used, and their messages never quote it.
const (
	// ReasonAccepted: the kubeconfig is accepted and in use.
	ReasonAccepted = "Accepted"
	// ReasonExpiringSoon: the kubeconfig is accepted and in use. Less than a tenth of the lifetime of its credentials is left, and less than
	// seven days. Renew them.
	ReasonExpiringSoon = "ExpiringSoon"
	// ReasonExpired: the credentials have ended, by their own word; the member may never have accepted them. Renew them.
	ReasonExpired = "Expired"
	// ReasonNotVerified: the kubeconfig can be read; whether the member accepts it is not known yet.
	ReasonNotVerified = "NotVerified"
	// ReasonKubeconfigMissing: the Secret has none of the keys kubeconfig, value, value.yaml.
	ReasonKubeconfigMissing = "KubeconfigMissing"
	// ReasonKubeconfigTooLarge: the kubeconfig is over 64 KiB, or of more than 4096 pieces.
	ReasonKubeconfigTooLarge = "KubeconfigTooLarge"
	// ReasonKubeconfigMalformed: it is not a kubeconfig, its current-context leads nowhere, or a token, key or certificate in it is none.
	ReasonKubeconfigMalformed = "KubeconfigMalformed"
	// ReasonExecRefused: it asks to run a program. Use a token or a client certificate.
	ReasonExecRefused = "ExecRefused"
	// ReasonAuthProviderRefused: it asks for an auth provider. Use a token or a client certificate.
	ReasonAuthProviderRefused = "AuthProviderRefused"
	// ReasonFileRefused: it names files. Embed them (kubectl config view --flatten).
	ReasonFileRefused = "FileRefused"
	// ReasonProxyRefused: it names a proxy.
	ReasonProxyRefused = "ProxyRefused"
	// ReasonImpersonationRefused: it impersonates another user.
	ReasonImpersonationRefused = "ImpersonationRefused"
	// ReasonBasicAuthRefused: it holds a user name and password. Use a token or a client certificate.
	ReasonBasicAuthRefused = "BasicAuthRefused"
	// ReasonServerRefused: its server is not an https URL, or is at an address that members may not have.
	ReasonServerRefused = "ServerRefused"
	// ReasonInsecureTLSRefused: it turns off the check of the server's certificate, or brings no CA.
	ReasonInsecureTLSRefused = "InsecureTLSRefused"
	// ReasonNoCredentials: it holds neither a token nor a client certificate.
	ReasonNoCredentials = "NoCredentials"
)

// Reasons of a MemberCluster's AllocatableKnown condition, beside [ReasonForbidden] and [ReasonUnhealthy].
const (
	// ReasonNodesListed: status.allocatable is the sum over the member's nodes that take pods.
	ReasonNodesListed = "NodesListed"
)

// Reasons of events on AppServices, and on their objects on the members, beside those of the rows.
const (
	// ReasonDriftCorrected: somebody had changed a field that the AppService sets; it was put back.
	ReasonDriftCorrected = "DriftCorrected"
	// ReasonAdopted: an object that existed before was taken over.
	ReasonAdopted = "Adopted"
	// ReasonAdoptionRestartsPods: an object is about to be taken over, and the pods of its Deployment are replaced, because the AppService
	// says something else of them. The event is sent before that happens. conflictPolicy AdoptIfIdentical refuses it instead.
	ReasonAdoptionRestartsPods = "AdoptionRestartsPods"
	// ReasonRemoved: an object was removed from a member.
	ReasonRemoved = "Removed"
	// ReasonOrphaned: an object was left running on a member, without our marks.
	ReasonOrphaned = "Orphaned"
	// ReasonAbandoned: a cluster was let go of, by annotation, before the workload was removed from it.
	ReasonAbandoned = "Abandoned"
	// ReasonNamespaceOrCRDDeleted: the AppService went with its namespace or its CRD, which the event is about; the members keep what they run.
	ReasonNamespaceOrCRDDeleted = "NamespaceOrCRDDeleted"
)

// Reasons of events on Secrets.
const (
	// ReasonNameConflict: another Secret is a member of that name already. Rename one of the two.
	ReasonNameConflict = "NameConflict"
)

// Reasons of events on MemberClusters, beside those of their conditions.
const (
	// ReasonClusterProfileConflict: the ClusterProfile of the member's name belongs to another cluster manager, by its spec or its label. It
	// is left alone, and this member is not published. Rename the member, or delete that ClusterProfile.
	ReasonClusterProfileConflict = "ClusterProfileConflict"
)
