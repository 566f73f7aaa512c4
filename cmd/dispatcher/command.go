package main

import (
	"io"

	"github.com/alecthomas/kong"
)

// command reads the arguments of `dispatcher NAME …` into a struct of kong's. asked is
// whether they begin with that name; ready, whether the command is to be carried out:
// it is not where help was asked for, which is printed to out, or where err says what
// is wrong with them.
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
