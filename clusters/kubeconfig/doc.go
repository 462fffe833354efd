// Package kubeconfig turns the Secret of a member into the [Config] for a connection, or rejects
// the Secret. It is pure: it opens no file and no connection, and starts no program. A security
// review of the power of a Secret needs to read only this package.
//
// # Usage
//
//	member := rules.Member(secret) // nil if the Secret is not a member's
//	config, rejected := member.Parse(policy)
//
// Exactly one of config and rejected is nil.
//
// # Invariants
//
//   - A Secret is hostile input. Parse decides on the raw content, before clientcmd resolves
//     anything in it.
//   - A Config runs no program, reads no file, and impersonates no other user. It uses TLS with a
//     known CA, unless the [Policy] permits otherwise. Only the current context of a kubeconfig is
//     used.
//   - A [RejectedError] has a documented reason and says what to do instead. It quotes nothing of
//     the Secret, and is the same each time.
//   - Deciding on a Secret takes at most 100 ms and 50 MiB, for any content.
//
// The address policy of package transport checks the addresses of a server's name when they are
// dialled.
//
// The files: [SecretRules] select Secrets. parse.go reads a kubeconfig, and argocd.go a cluster Secret
// of Argo CD. checks.go has the checks that both must pass. credentials.go builds the [Config],
// claims.go reads the claims of its token, and expiry.go its expiry. renewal.go decides when the
// token is renewed, and withtoken.go puts another token into the Secret. labels.go decides which
// labels are copied.
package kubeconfig
