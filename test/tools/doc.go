// Package tools runs each program of the image tools in a cell: make test-tools.
package tools
