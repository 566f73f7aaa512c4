// Package ui tests the web page in a real browser, with a real fleet. It covers each page and each
// action, in both themes, with the keyboard, during updates, and with markup in the output of
// programs. Build tag ui; `make test-ui` runs it.
package ui
