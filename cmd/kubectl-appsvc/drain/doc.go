// Package drain has the commands cordon, uncordon and drain.
//
//   - [Drain] changes only spec.unschedulable and the taint of drain. The operator moves the
//     AppServices.
//   - A cluster is drained when two listings after the taint find no AppService on it: the operator may
//     have placed one by what it read before.
//   - An AppService that will not leave before somebody edits it ends the wait.
package drain
