// Package oidc lets in whom an OpenID Connect issuer vouches for: with a JWT as the bearer token of a request, or by
// signing in with a browser. What somebody may do follows from the groups that the issuer says they are in.
package oidc
