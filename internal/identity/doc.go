// Package identity says who sends a request, and what they may do: of which tenant they are, in which role, and whether
// they are held to a part of what the tenant has.
package identity
