// Package command is the kubectl plugin appsvc: all of its commands, and their tests. Each command is
// in a file of its name, here or in the package of its family: join, drain, rollout, doctor. It reads
// the hub with the permissions of the caller, leaves each decision to a pure function, and prints the
// result.
//
//	code := command.Run(ctx, version, os.Args[1:], streams)
//
// # Contract
//
//   - The commands have the flags of kubectl that select a cluster and a namespace, and its output
//     formats. They use the kubeconfig and the permissions of the caller. No command connects to a
//     member with a kubeconfig from a Secret of the hub.
//   - The last message on the error stream says what is wrong and what to do. What a command did
//     before the error is printed.
//   - The exit code is 0 if all went well, 1 after an error, and [hub.ExitNegative] if the command
//     worked and its answer is no: the AppService is not Ready, or a check failed. diff has the exit
//     codes of kubectl diff.
//   - The text fits into 80 columns if the names do, and does not depend on colour. The width of a
//     terminal is used if it is larger.
package command
