// Package start runs the instructions for newcomers: the blocks of the pages in docs/start, and the
// programs in examples, over real fleets.
//
// # Pages
//
// A page is run from its top to its end, in an empty directory that holds bin. The words after its
// fence select the treatment of a block:
//
//	sh             run by bash, after all before it; a failure of any command fails the page
//	sh fleet       run in the background until the fleet is ready, and stopped at the end
//	python NAME    written to the file NAME
//	json NAME      the same
//	text           expected output of the block of sh above it; … is any text within a line
//	sh docker, sh kubernetes: not run here
//
// Any other block fails the test, so that all blocks on these pages are tested. The address
// http://127.0.0.1:8080 stands for the address of the page's own fleet.
package start
