// Package identity authenticates requests. It returns the sender's tenant and role, and the restriction of a key.
package identity
