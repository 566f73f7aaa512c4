// Package oidc authenticates users of an OpenID Connect issuer: with a JWT as the bearer token of a
// request, or by sign-in with a browser. The permissions follow from the groups in the issuer's
// token.
package oidc
