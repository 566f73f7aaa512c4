package main

import (
	"crypto/sha256"

	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/ui"
)

// page returns the gate of the API and the web page, which includes the page's own sessions, and
// the sign-in.
func (c *config) page(gate identity.Gate) (identity.Gate, ui.Issuer, error) {
	issuer, err := c.Access.issuer()
	if err != nil || issuer == nil {
		return gate, nil, err
	}
	return ui.AcceptVisitors(gate), issuer, nil
}

// pageKey returns the encryption key of the web page's cookies, from the fleet's shared key.
// Without one it returns nil, and each process has its own.
func pageKey(secrets string) []byte {
	if secrets == "" {
		return nil
	}
	sum := sha256.Sum256([]byte("assay web page\x00" + secrets))
	return sum[:]
}
