// Package show prints a fleet's data for people. It escapes control characters, because much of the
// text is untrusted.
package show

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// A Table prints rows in columns. Tabs in cells do not add columns.
type Table struct{ to *tabwriter.Writer }

// NewTable starts a table on w, with an optional line of headings.
func NewTable(w io.Writer, headings ...any) Table {
	t := Table{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	if len(headings) > 0 {
		t.Row(headings...)
	}
	return t
}

// Row adds a row.
func (t Table) Row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(t.to, "\t")
		}
		fmt.Fprint(t.to, Plain(fmt.Sprint(c)))
	}
	fmt.Fprintln(t.to)
}

// End prints the table.
func (t Table) End() error { return t.to.Flush() }

// Plain removes control characters from untrusted text.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
