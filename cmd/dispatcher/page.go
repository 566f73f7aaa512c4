package main

import "crypto/sha256"

// pageKey is what cookies of the web page are sealed with: of the key that dispatchers of a fleet share, and one of this
// process alone where they have none.
func pageKey(secrets string) []byte {
	if secrets == "" {
		return nil
	}
	sum := sha256.Sum256([]byte("assay web page\x00" + secrets))
	return sum[:]
}
