// Package start runs what a newcomer is told to run: the blocks of the pages in
// docs/start, and the programs in examples, over real fleets.
//
// # Pages
//
// A page is run from its top to its end, in an empty directory that holds bin. What
// is done with a fenced block depends on the words behind its fence:
//
//	sh             run by bash, after all before it; a failure of any command fails the page
//	sh fleet       run in the background until the fleet is ready, and stopped at the end
//	python NAME    written to the file NAME
//	json NAME      the same
//	text           what the block of sh above it must have printed; … is any text within a line
//	sh docker, sh kubernetes: not run here
//
// Any other block fails the test, so that nothing on these pages is unproven by accident. The
// address http://127.0.0.1:8080 stands for that of the page's own fleet.
package start
