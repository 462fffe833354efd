package kubeconfig

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Holder says whose token a Config has, as far as the token says so itself.
type Holder struct {
	// Account is the ServiceAccount of the token, or empty if it is the token of something else.
	Account types.NamespacedName
	// Secret is the name of the Secret, in the namespace of the account, that has the token. It is empty
	// if the token is not one that a Secret has. Such a token does not expire; it ends when the Secret is
	// deleted.
	Secret string
}

// Holder returns whose token it is. It does not verify the token's signature.
func (c *Config) Holder() Holder {
	claims := claimsOf(c.Token)
	account, isAccount := serviceAccount(claims.Subject)
	if !isAccount || len(validation.IsDNS1123Subdomain(claims.HoldingSecret)) > 0 {
		return Holder{Account: account}
	}
	return Holder{account, claims.HoldingSecret}
}
