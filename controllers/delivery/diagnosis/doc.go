// Package diagnosis determines why a workload is not ready, in the words of its cluster. It is
// pure: the caller lists pods and events, and this package chooses a reason and a message.
//
//	if message, refused := diagnosis.PodsRefused(deployment); refused { ... }
//	failure := diagnosis.MostSevere(pods)
//	if pod, count := diagnosis.WaitingForVolumes(pods); count > 0 {
//		missing := diagnosis.MountFailure(eventsOf(pod))
//	}
//
// # Invariants
//
//   - Reasons are those of package v1alpha1.
//   - The same state gives the same message, in any order of the pods and events. A message
//     has no times and no restart counts, because the status is written when a message changes.
package diagnosis
