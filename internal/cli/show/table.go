// Package show prints what a fleet says, for people. Much of it was written by others: nothing in it speaks to the terminal.
package show

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// A Table prints rows in columns. Nothing in a cell makes further columns.
type Table struct{ to *tabwriter.Writer }

// NewTable begins a table on w, with a line of headings if there are any.
func NewTable(w io.Writer, headings ...any) Table {
	t := Table{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	if len(headings) > 0 {
		t.Row(headings...)
	}
	return t
}

// Row adds one.
func (t Table) Row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(t.to, "\t")
		}
		fmt.Fprint(t.to, Plain(fmt.Sprint(c)))
	}
	fmt.Fprintln(t.to)
}

// End prints what was added.
func (t Table) End() error { return t.to.Flush() }

// Plain keeps what others wrote from speaking to the terminal.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
