// Package leasefence blocks the writes of a replica that does not hold the Lease of the leader
// election.
//
// The election alone is not enough. A leader may be frozen (a paused machine, a stopped process)
// and wake after its Lease has expired. It then still sends writes that it decided on earlier,
// although another replica leads by now. The fence is the last round tripper that a request passes.
//
// # Contract
//
//   - The fence is open while the Lease was renewed less than the renew deadline ago, and closed
//     otherwise. A new fence is closed.
//   - A closed fence refuses every request whose method is not GET, HEAD or OPTIONS. Reads always
//     pass.
//   - The fence is checked before a request is sent, and again whenever a part of its body is read,
//     because a connection may have to be established in between.
//   - The age of a renewal starts before the request that renewed the Lease was sent. It is
//     measured by the monotonic clock and by the wall clock, and the greater age counts: the
//     monotonic clock stops while a machine sleeps, and the wall clock may be set back.
//   - A replica whose fence is closed does not release the Lease, because its last writes may still
//     be in flight. Its successor waits until the Lease expires.
//   - The error of a refused request has a method Fenced() bool that returns true, so that callers
//     can distinguish it from an error of the server.
//
// The guarantee depends on the times of the election: a write that passed an open fence has the
// difference between the lease duration and the renew deadline to arrive.
//
// # Usage
//
// One fence guards everything that a replica can change. The lock of the election must use a
// configuration without the fence; NewLock returns that lock, and it opens and closes the fence.
//
//	fence := leasefence.New(renewDeadline)
//	lock, err := fence.NewLock(hub, namespace, "my-operator", nil)
//	if err != nil {
//		return err
//	}
//	fenced := rest.CopyConfig(hub)
//	fenced.WrapTransport = transport.Wrappers(fence.Wrap, hub.WrapTransport) // the fence is innermost
//	manager, err := ctrl.NewManager(fenced, ctrl.Options{
//		LeaderElection:                      true,
//		LeaderElectionResourceLockInterface: lock,
//		RenewDeadline:                       &renewDeadline,
//	})
package leasefence
