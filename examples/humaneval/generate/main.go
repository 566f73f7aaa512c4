// Command generate writes the example batch to standard output, a job a line.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/assay-run/assay/examples/humaneval"
)

func main() {
	isolation := flag.String("isolation", "", "isolation of every job; empty: the default")
	flag.Parse()
	if err := run(os.Stdout, *isolation); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, isolation string) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	for _, spec := range humaneval.Batch(isolation) {
		if err := enc.Encode(spec); err != nil {
			return err
		}
	}
	return out.Flush()
}
