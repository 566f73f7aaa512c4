package main

import (
	"crypto/sha256"

	"github.com/assay-run/assay/internal/identity"
	"github.com/assay-run/assay/internal/ui"
)

// page returns the gate of the API and the page, and where people sign in besides; whom that vouches for, the gate lets in.
func (c *config) page(gate identity.Gate) (identity.Gate, ui.Issuer, error) {
	issuer, err := c.Access.issuer()
	if err != nil || issuer == nil {
		return gate, nil, err
	}
	return ui.Within(gate), issuer, nil
}

// pageKey is what cookies of the web page are sealed with: of the key that dispatchers of a fleet share, and one of this
// process alone where they have none.
func pageKey(secrets string) []byte {
	if secrets == "" {
		return nil
	}
	sum := sha256.Sum256([]byte("assay web page\x00" + secrets))
	return sum[:]
}
