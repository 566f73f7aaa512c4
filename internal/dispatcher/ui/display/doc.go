// Package display makes untrusted text and data displayable: text without characters that hide or reorder it, terminal
// colours as classes, and readable figures. It produces no markup; templates escape all of its results.
package display
