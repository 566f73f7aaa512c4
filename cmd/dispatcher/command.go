package main

import (
	"io"

	"github.com/alecthomas/kong"
)

// command parses the arguments of `dispatcher NAME …` with kong. asked reports whether they start
// with the name. ready reports whether to run the command: it is false after --help, which prints
// to out, and after an error.
func command(name, about string, args []string, into any, out io.Writer) (asked, ready bool, err error) {
	if len(args) == 0 || args[0] != name {
		return false, false, nil
	}
	helped := false
	p, err := kong.New(into, kong.Name("dispatcher "+name), kong.Description(about), kong.Writers(out, out), kong.Exit(func(int) { helped = true }))
	if err != nil {
		return true, false, err
	}
	_, err = p.Parse(args[1:])
	if helped {
		return true, false, nil
	}
	return true, err == nil, err
}
