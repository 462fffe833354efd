// Package doctor has the command doctor: it checks a cluster of the fleet step by step, from what the
// hub reports to each permission on the cluster.
//
//   - It reads no credentials of the hub, and changes nothing but the reviews of permissions.
//   - Each step from this machine ends after a limit, even if the server never answers. A step
//     without which the next ones have no meaning ends the examination.
//   - A check that fails says what to do.
package doctor
