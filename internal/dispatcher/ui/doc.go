// Package ui is the web page of a fleet. It shows responses of the API and performs actions through it. It calls the
// API in the same process with the visitor's token, so visitors see only what the API shows them.
//
// Templates render whole pages, which work without scripts. With scripts, pages refresh a part while it changes. Text
// of programs reaches a page only as text (package display).
package ui
