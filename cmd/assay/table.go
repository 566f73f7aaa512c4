package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// A table prints rows in columns, for a person. Much of what cells hold was written by others: nothing in them speaks to
// the terminal or makes further columns.
type table struct{ to *tabwriter.Writer }

// newTable begins a table on w, with a line of headings if there are any.
func newTable(w io.Writer, headings ...any) table {
	t := table{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	if len(headings) > 0 {
		t.row(headings...)
	}
	return t
}

// row adds one.
func (t table) row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(t.to, "\t")
		}
		fmt.Fprint(t.to, plain(fmt.Sprint(c)))
	}
	fmt.Fprintln(t.to)
}

// end prints what was added.
func (t table) end() error { return t.to.Flush() }
