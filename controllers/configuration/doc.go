// Package configuration decides which content of ConfigMaps and Secrets of the hub an AppService
// has. It is pure, and the content of a Secret never gets into a decision or a message.
//
// A source is a ConfigMap or a Secret of the hub that spec.configuration or an override lists. Its
// owner agrees with the label fleetwright.dev/propagate=true. Each content in use is stored as a
// snapshot, an immutable object on the hub. Members get copies. A change of a Versioned source is a
// new revision, which names the snapshots. A change of an InPlace source gets the next serial, and
// reaches all clusters at once: certificates and passwords of registries must get there before the old
// ones expire, and a stage that waits for an approval would stop that. A member never gets a lower
// serial, so that a restored hub does not overwrite a newer content with an older one.
//
// Two people agree on each source. The label alone would switch every AppService that refers to a
// member's own object of this name. The list alone would let whoever writes AppServices read any
// Secret of the namespace in a pod.
//
// # Usage
//
//	decision := configuration.Decide(in)
//	if len(decision.Read) > 0 {
//		// Read these live. Add Digest, Type, Size and EqualTo to in.Sources. Decide again.
//	}
//	// 1. Create the snapshots of decision.Create. AlreadyExists is success if the object has our
//	//    owner and digest. Otherwise add the object to in.Snapshots, and decide again.
//	// 2. If decision.NeedsRevision, or the template was edited and decision.Blocker is nil: create
//	//    the ControllerRevision, which names decision.Configuration.
//	// 3. Write decision.Status. The patch names the resourceVersion of the AppService.
//	// 4. Delete the snapshots of decision.Prune by UID.
//	// Keep decision.Memory for the next decision. Decide again after decision.RecheckAfter.
//
// What must hold:
//
//   - Steps 1 to 4 are in this order. If one fails, those after it are left out, and the memory is
//     not kept. Then a crash leaves at most a snapshot that nothing names.
//   - Revisions are complete, and so are the Snapshots of a kind that is not in Unlisted. If revisions
//     cannot be listed, do not decide.
//   - A source is Absent or not labelled only after a live read. A cache that has only labelled
//     objects does not know which of both it is.
//   - What was read of a version of a source is given again until the source has another version, in
//     this process. A source with the version of the status need not be read.
//   - If the name of the content that was read is not that of the snapshot in use, the reader
//     compares both byte by byte, and sets EqualTo if they are equal. Otherwise a new key would
//     replace all pods.
//   - Now has the precision of the system clock.
//
// # Names
//
//	web-settings-5hc9dk2m7t.snapshot  the snapshot of a content
//	web-settings-5hc9dk2m7t           its copy on members, if it is Versioned
//	web-tls-k2x7m9q4ta                the copy of an InPlace source, for all its contents
//	web-flags-x4b2c9d8fz.absent       in place of a snapshot: an optional source never existed
//
// The last part is from a digest with a key, so that nobody can test guesses of a content. A name
// always stands for one content, because kubelets may go on serving the old content of an immutable
// object that was deleted and created again. The last two names do not depend on content, and need
// no key: a lost key does not change them.
//
// # Rules
//
//   - A source that is deleted, has no label any more, is refused or cannot be read changes nothing
//     that a cluster is given. The last snapshot stays in use, for new clusters too.
//   - Without any content, a source blocks new revisions, unless it is optional and does not exist.
//     Its absence is a content of its own then. A source that exists and may not be used blocks new
//     revisions also if it is optional: somebody wants it to be used.
//   - A new version is read at once. If it has the same content, for example in another order of its
//     keys, it changes only observedVersion.
//   - Changes are collected until none has followed for a second, at most for ten. All are used
//     together. At most five are used without waiting, and then one a minute.
//   - Each source is read at most ten times without waiting, and then twice a minute. While it waits,
//     its changes are not announced as those of others are, and Ready does not depend on them.
//   - At most [MaxSources] sources and [MaxSize] bytes are used. What is in use comes first.
//   - A Secret that is updated in place keeps its type, because no Secret can change it.
//   - InPlace sources of revisions in use that are no longer in the spec stay in the status: clusters
//     that keep such a revision, or return to it, need them. They block nothing.
//   - Serials only rise, also if a source is removed and added again: members that cannot be reached
//     keep its last content until then. So a serial on a member that is higher than all that the hub
//     has given means that the hub was restored. The content is left alone until a user accepts it,
//     or until the source changes.
//   - A snapshot is deleted only if the next status and all stored revisions are known and do not
//     name it, and it is ten minutes old. Only objects that this AppService owns, and whose names are
//     those of their digests, are deleted.
package configuration
