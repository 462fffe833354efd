// Package tokentest makes tokens of ServiceAccounts as they would be some time after an API server
// issued them. An API server issues tokens of at least ten minutes, so a test cannot wait until one
// is old. With the key of the API server, the test signs a token with other times. To the API
// server, it is like any other token.
package tokentest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// Reissue returns a token with the claims of another one, except that it was issued at a time and
// has a lifetime. The key is the private key of the API server, in PEM form.
func Reissue(key []byte, token string, issued time.Time, lifetime time.Duration) (string, error) {
	claims, err := Claims(token)
	if err != nil {
		return "", err
	}
	claims["iat"], claims["nbf"], claims["exp"] = issued.Unix(), issued.Unix(), issued.Add(lifetime).Unix()
	return Sign(key, token, claims)
}

// Claims returns the claims of a token.
func Claims(token string) (map[string]any, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("the token does not have three parts")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, fmt.Errorf("decode the claims: %w", err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		return nil, fmt.Errorf("decode the claims: %w", err)
	}
	return claims, nil
}

// Sign returns a token with claims, and with the header of a token of the same API server.
func Sign(key []byte, like string, claims map[string]any) (string, error) {
	private, err := keyutil.ParsePrivateKeyPEM(key)
	if err != nil {
		return "", fmt.Errorf("parse the key: %w", err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("encode the claims: %w", err)
	}
	header, _, _ := strings.Cut(like, ".")
	text := header + "." + base64.RawURLEncoding.EncodeToString(payload)
	signature, err := sign(private, text)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// sign returns the signature of a text by the algorithm RS256 or ES256 (RFC 7518, section 3),
// whichever fits the key.
func sign(key any, text string) ([]byte, error) {
	digest := sha256.Sum256([]byte(text))
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
		if err != nil {
			return nil, err
		}
		const size = 32 // of each half
		return append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...), nil
	}
	return nil, fmt.Errorf("unknown type %T of the key", key)
}
