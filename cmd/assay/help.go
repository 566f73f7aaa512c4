package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// printHelp prints the help of the whole program on one screen, or of a command with only its own flags.
func printHelp(o kong.HelpOptions, ctx *kong.Context) error {
	if ctx.Selected() == nil {
		return printOverview(ctx.Stdout, ctx.Model)
	}
	for _, f := range ctx.Model.Flags {
		f.Hidden = true
	}
	for n := ctx.Selected(); n != nil; n = n.Parent {
		n.Group = nil // a heading of the overview only
	}
	if err := kong.DefaultHelpPrinter(o, ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintln(ctx.Stdout, "\nFlags of all commands: see assay --help.")
	return err
}

// printOverview prints the commands by group, and the flags of all commands.
func printOverview(w io.Writer, app *kong.Application) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Usage: assay <command> [flags]\n\n%s\n", app.Help)
	group := ""
	for _, c := range app.Children {
		if c.Group.Title != group {
			group = c.Group.Title
			fmt.Fprintf(&b, "\n%s:\n", group)
		}
		fmt.Fprintf(&b, "  %-16s%s\n", c.Name, c.Help)
	}
	fmt.Fprint(&b, "\nFlags of all commands:\n")
	for _, f := range app.Flags {
		name := "--" + f.Name
		if f.Short != 0 {
			name = fmt.Sprintf("-%c, %s", f.Short, name)
		}
		if !f.IsBool() {
			name += "=" + f.FormatPlaceHolder()
		}
		fmt.Fprintf(&b, "  %-16s%s\n", name, kong.DefaultHelpValueFormatter(f.Value))
	}
	fmt.Fprint(&b, "\nRun \"assay <command> --help\" for the subcommands and flags of a command.\n")
	_, err := w.Write(b.Bytes())
	return err
}

// parse returns the command of args. Its errors name the command whose help has the remedy.
func parse(parser *kong.Kong, args []string) (*kong.Context, error) {
	parsed, err := parser.Parse(args)
	if e := (*kong.ParseError)(nil); errors.As(err, &e) {
		text := strings.Replace(err.Error(), `must be one of "",`, "must be one of ", 1)
		return nil, usage(e.Context, strings.Replace(text, `expected "<`, `missing "<`, 1))
	}
	if err != nil {
		return nil, err
	}
	for _, p := range parsed.Selected().Positional {
		if p.Required && p.Target.Kind() == reflect.String && p.Target.String() == "" { // usually an unset variable of a shell
			return nil, usage(parsed, p.Summary()+" is empty")
		}
	}
	return parsed, nil
}

// usage returns an error about a command line.
func usage(ctx *kong.Context, text string) error {
	path := "assay"
	for _, p := range ctx.Path {
		if p.Command != nil {
			path = p.Command.FullPath()
		}
	}
	return fmt.Errorf("%s; see %s --help", text, path)
}

// duration decodes a flag.
func duration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 90s, 15m or 24h", text)
	}
	target.SetInt(int64(d))
	return nil
}

// Help returns the details of assay run.
func (*runCmd) Help() string {
	return `The exit code is the program's, 124 if it timed out, or 125 if the fleet could not run it.

Examples:

    assay run hello.py
    echo 'print(6 * 7)' | assay run -
    assay run --language cpp main.cc -- argument
    assay run --tests tests.json solution.py`
}

// Help returns the details of assay batch submit.
func (*batchSubmitCmd) Help() string {
	return `Each line is a job, as in the body of POST /v1/jobs. Files above 32 MiB are sent in chunks.

Examples:

    assay batch submit jobs.jsonl --wait
    assay batch submit jobs.jsonl --lease 60s --wait`
}

// Help returns the details of assay session.
func (*sessionCmd) Help() string {
	return `Without a subcommand, opens a session and closes it at the end of the input.

Examples:

    assay session
    echo 'ls -l' | assay session --kind shell
    assay session list --all
    assay session close ID`
}

// Help returns the details of assay worker.
func (*workerCmd) Help() string {
	return `Cordon, uncordon and drain take names of workers, or select workers by pool, version, label or state.

Examples:

    assay worker cordon w1 w2 --reason "new disk"
    assay worker drain --label rack=7 --dry-run
    assay worker drain --version v1.4 --wait`
}
