// Package hub is the access of the commands to the hub, with the kubeconfig and the permissions of the
// caller: the flags that select the hub, reads and changes of its objects, completions of their names,
// the contexts of the caller, and the messages of errors.
//
//	h, err := options.Connect()
//	app, err := h.ReadApp(ctx, name)
//
// # Contract
//
//   - [Options.Connect] sends no request. A [Client] reads all pages of a list.
//   - A watch has no limit of time. [Client.FollowList] lists once, and again only if its watch ends.
//   - An AppService is read with its entries, wherever the hub stores them.
//   - Each write has the field manager [FieldManager], and the hub refuses a field that it does not
//     know.
//   - [Describe] says what is wrong and what to do. [ExitError] has an exit code of its own.
//   - A cluster is reached only by a context of the caller. It is found by its identity: the UID of
//     its namespace kube-system.
package hub
