// Package ui is the web page of a fleet: it shows what the API answers to whoever has signed in, and does what they ask
// the API for. It asks the API for everything, in the same process, with the token of who looks: what somebody may not
// see there they cannot see here.
//
// Pages are made by templates, whole, and work without scripts. With them, a part of a page is asked for again while it
// changes. What programs wrote reaches a page as text alone (package shown).
package ui
