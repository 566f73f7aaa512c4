package main

import (
	"io"

	"github.com/alecthomas/kong"
)

// About the commands, for their help and for the help of the dispatcher.
const (
	aboutMigrate = "Bring the database schema up to date. Concurrent runs wait for each other."
	aboutIssue   = "Fill the Secrets of a fleet with keys and tokens, from inside the Kubernetes cluster."
	aboutCheck   = "Check that a fleet works."
)

// commandsHelp lists the commands after the flags of the dispatcher.
const commandsHelp = `
Commands:
  dispatcher migrate    ` + aboutMigrate + `
  dispatcher issue      ` + aboutIssue + `
  dispatcher check      ` + aboutCheck + `
  dispatcher key        Print a new key for ASSAY_WORKERS_KEY.
  dispatcher secrets    Print a new .env for docker-compose.yml, with all secrets of a fleet.
  dispatcher nats       Print the authorization section of the NATS server's configuration.
  dispatcher env        Print the key and a join token as variables, for deploy/nats/nats.conf.
  dispatcher token      Print the token of a worker, or a join token of a pool.

Run "dispatcher migrate --help" for the flags of migrate; issue and check have flags, too.
`

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
