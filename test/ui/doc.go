// Package ui looks at the web page with a real browser, of a real fleet: each page and each action, in both themes, with
// the keyboard, while it changes, and with markup in whatever programs write. Build tag ui; `make test-ui` runs it.
package ui
