package kubeconfig

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// tokenClaims are the claims of a JSON Web Token (RFC 7519, section 4.1) that are read. The
// signature is not verified, so they are only what the token says about itself.
type tokenClaims struct {
	Subject   string  `json:"sub"`
	Expiry    float64 `json:"exp"`
	IssuedAt  float64 `json:"iat"`
	NotBefore float64 `json:"nbf"`
	// HoldingSecret is the name of the Secret that has the token, if it was made for a Secret of type
	// kubernetes.io/service-account-token. Such a token does not expire.
	HoldingSecret string `json:"kubernetes.io/serviceaccount/secret.name"`
	// Kubernetes has the objects to which an API server bound the token.
	Kubernetes struct {
		Secret *boundObject `json:"secret"`
		Pod    *boundObject `json:"pod"`
		Node   *boundObject `json:"node"`
	} `json:"kubernetes.io"`
}

// boundObject is an object to which a token is bound: the token is invalid without the object.
type boundObject struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// claimsOf returns the claims of a token. They are empty if the token is no JSON Web Token.
func claimsOf(token string) tokenClaims {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return tokenClaims{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return tokenClaims{}
	}
	var c tokenClaims
	if err := json.Unmarshal(payload, &c); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return tokenClaims{}
	}
	return c // a claim of another type than expected counts as missing
}

// begin returns when the token was issued, or else from when it is valid.
func (c tokenClaims) begin() time.Time {
	return cmp.Or(claimedTime(c.IssuedAt), claimedTime(c.NotBefore))
}

// end returns when the token expires.
func (c tokenClaims) end() time.Time { return claimedTime(c.Expiry) }

// maxExpiry is the end of the year 9999, in seconds since 1970: RFC 3339 cannot represent later
// times.
const maxExpiry = 253402300799

// claimedTime returns the time of a claim, or the zero time if there is no such time.
func claimedTime(seconds float64) time.Time {
	if seconds <= 0 || seconds > maxExpiry {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0).UTC()
}
