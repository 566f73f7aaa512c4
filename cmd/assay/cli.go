package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/assay-run/assay/internal/cli/operate"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// Exit codes other than the program's.
const (
	exitTimedOut = 124 // like timeout(1)
	exitOurs     = 125 // the request was rejected, or our failure; like docker run
	exitMemory   = 137 // 128 + SIGKILL, the kernel's reaction to a lack of memory
)

// cli holds every command, flag and environment variable.
type cli struct {
	globals

	Run     runCmd     `cmd:"" group:"Programs" help:"Run a program; print its output and exit with its exit code."`
	Check   checkCmd   `cmd:"" group:"Programs" help:"Check Python programs for errors without running them."`
	Batch   batchCmd   `cmd:"" group:"Programs" help:"Manage batches of jobs."`
	Job     jobCmd     `cmd:"" group:"Programs" help:"Manage jobs."`
	Session sessionCmd `cmd:"" group:"Programs" help:"Open, list, show and close live interpreters and shells."`
	Eval    evalCmd    `cmd:"" group:"Programs" help:"Import problems to grade solutions with."`
	MCP     mcpCmd     `cmd:"" group:"Programs" name:"mcp" help:"Serve sandboxes to an agent as MCP tools on stdin and stdout."`

	Policy policyCmd    `cmd:"" group:"Rules" help:"Manage policies: limits and permissions of programs."`
	Secret secretCmd    `cmd:"" group:"Rules" help:"Manage secrets for the environment of programs."`
	Keys   operate.Keys `cmd:"" group:"Rules" help:"Manage API keys."`

	Top       topCmd          `cmd:"" group:"Fleet" help:"Show the fleet live: workers, queue and outcomes."`
	Worker    workerCmd       `cmd:"" group:"Fleet" help:"List, cordon and drain workers, one or many."`
	Image     imageCmd        `cmd:"" group:"Fleet" help:"Manage the images that jobs run in."`
	Languages languagesCmd    `cmd:"" group:"Fleet" help:"List programming languages and their versions in an image."`
	Tenants   operate.Tenants `cmd:"" group:"Fleet" help:"Manage tenants and their grants."`
	Admin     adminCmd        `cmd:"" group:"Fleet" help:"Operate the fleet; needs an operator's token."`

	Dev     devCmd     `cmd:"" group:"This machine" help:"Run a whole fleet on this machine until interrupted."`
	Demo    demoCmd    `cmd:"" group:"This machine" help:"Run 328 programs in a temporary fleet; check every verdict."`
	Doctor  doctorCmd  `cmd:"" group:"This machine" help:"Check which isolation levels and limits this host supports."`
	Version versionCmd `cmd:"" group:"This machine" help:"Print the version."`
}

// globals holds the flags of every command.
type globals struct {
	URL      string        `name:"url" env:"ASSAY_URL" default:"http://127.0.0.1:8080" placeholder:"URL" help:"Fleet, http://127.0.0.1:8080 by default."`
	Token    string        `name:"token" env:"ASSAY_TOKEN" placeholder:"TOKEN" help:"Token for the fleet."`
	CAFile   string        `name:"ca-file" env:"ASSAY_CA_FILE" placeholder:"FILE" help:"PEM file of extra authorities."`
	Patience time.Duration `name:"patience" env:"ASSAY_PATIENCE" default:"10s" help:"Retry time if the fleet is silent."`
	JSON     bool          `name:"json" help:"Print JSON."`
}

// app is the environment of commands.
type app struct {
	globals
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
}

// exitCode is an error without text: the command has printed everything.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit %d", int(c)) }

// exited carries kong's exit (after --help) up the stack.
type exited int

// run is the main function. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if e, ok := recover().(exited); ok {
			code = int(e)
		}
	}()
	var c cli
	parser, err := newParser(&c, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "assay:", err)
		return exitOurs
	}
	if slices.Equal(args, []string{"--version"}) { // no flag of all commands: a flag of some selects workers
		args = []string{"version"}
	}
	parsed, err := parse(parser, args)
	if err != nil {
		fmt.Fprintln(stderr, "assay:", err)
		return exitOurs
	}
	a := &app{globals: c.globals, ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr}
	parsed.BindTo(a, (*operate.Host)(nil))
	return a.report(parsed.Run(a, &operate.KeysEnv{Ctx: ctx, Client: a.client, JSON: a.JSON, Out: stdout, Err: stderr}))
}

// newParser returns the parser of the command line. After --help it panics with exited.
func newParser(c *cli, stdout, stderr io.Writer) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("assay"),
		kong.Description("Run untrusted programs under capability policies, one or a million."),
		kong.Vars{"outcomes": enum(job.Outcomes), "failures": enum(job.Failures())},
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Help(printHelp),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(duration)),
	)
}

// enum joins outcomes for the enum tag of a flag.
func enum(outcomes []job.Outcome) string {
	var all []string
	for _, o := range outcomes {
		all = append(all, string(o))
	}
	return strings.Join(all, ",")
}

// report prints an error and returns its exit code.
func (a *app) report(err error) int {
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(a.stderr, "assay: interrupted")
	default:
		fmt.Fprintln(a.stderr, "assay:", err)
	}
	return exitOurs
}

// client returns a client of the chosen fleet.
func (a *app) client() (*client.Client, error) {
	options := []client.Option{client.WithToken(a.Token), client.WithPatience(a.Patience)}
	if !local(a.URL) {
		options = append(options, client.WithCompression())
	}
	if a.CAFile != "" {
		trusting, err := trust(a.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file or ASSAY_CA_FILE: %w", err)
		}
		options = append(options, client.WithHTTPClient(trusting))
	}
	c, err := client.New(a.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("--url or ASSAY_URL: %w", err)
	}
	return c, nil
}

// trust returns a client that trusts the authorities in a file and the system's.
func trust(file string) (*http.Client, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // the system has none
	}
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: t}, nil
}

// Context returns the context of the command.
func (a *app) Context() context.Context { return a.ctx }

// Dial returns a client of the fleet.
func (a *app) Dial() (*client.Client, error) { return a.client() }

// Say prints v as JSON, or text.
func (a *app) Say(v any, text func(io.Writer) error) error {
	if a.JSON {
		return a.printJSON(v)
	}
	return text(a.stdout)
}

// local reports whether a fleet runs on this machine.
func local(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// printJSON prints v as one line of JSON.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printf prints a line for people.
func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.stdout, format, args...) }
