// Package shown makes what strangers wrote fit to be looked at: text without what hides or reorders text, colours of
// terminals as classes, and figures as people read them. Nothing here is markup; templates escape all of it.
package shown
