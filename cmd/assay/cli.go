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
	"strings"
	"time"

	"github.com/alecthomas/kong"

	clikeys "github.com/assay-run/assay/internal/cli/keys"
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

	Run       runCmd          `cmd:"" help:"Run a program and be it: its output, its exit code."`
	Check     checkCmd        `cmd:"" help:"Say what can be seen of python programs without running them."`
	Eval      evalCmd         `cmd:"" help:"Problems to evaluate solutions with."`
	Batch     batchCmd        `cmd:"" help:"Many jobs together."`
	Job       jobCmd          `cmd:"" help:"One job."`
	Session   sessionCmd      `cmd:"" help:"A live interpreter or shell: what is typed is executed, and its state kept."`
	MCP       mcpCmd          `cmd:"" name:"mcp" help:"Give an agent sandboxes as tools: a server of the Model Context Protocol, on standard input and output."`
	Policy    policyCmd       `cmd:"" help:"What programs may do."`
	Secret    secretCmd       `cmd:"" help:"What programs are told, by environment variable, and nobody else."`
	Keys      clikeys.Cmd     `cmd:"" help:"Who may come in, and how far."`
	Tenants   operate.Tenants `cmd:"" help:"What tenants are granted, and have under way."`
	Worker    workerCmd       `cmd:"" help:"The machines that run jobs."`
	Languages languagesCmd    `cmd:"" help:"List the programming languages that programs may be in, with the versions that an image has."`
	Image     imageCmd        `cmd:"" help:"What programs find on their disk: which images workers have, and, on a worker's host, importing and pruning them."`
	Admin     adminCmd        `cmd:"" help:"What operators do by hand; it takes an operator's token."`
	Top       topCmd          `cmd:"" help:"The fleet, live: its workers, what waits, how jobs end."`
	Doctor    doctorCmd       `cmd:"" help:"Check what this host can run and enforce, and say what to do about the rest."`
	Dev       devCmd          `cmd:"" help:"Run a whole fleet on this machine."`
	Demo      demoCmd         `cmd:"" help:"Run 328 real programs through a fleet of its own and check every verdict."`
	Version   versionCmd      `cmd:"" help:"Print the version."`
}

// globals holds the flags of every command.
type globals struct {
	URL      string        `name:"url" env:"ASSAY_URL" default:"http://127.0.0.1:8080" placeholder:"URL" help:"The fleet to talk to (${env})."`
	Token    string        `name:"token" env:"ASSAY_TOKEN" placeholder:"TOKEN" help:"Token for that fleet (${env})."`
	CAFile   string        `name:"ca-file" env:"ASSAY_CA_FILE" placeholder:"FILE" help:"Certificates, in PEM, of authorities besides the system's that the fleet's own may be signed by (${env})."`
	Patience time.Duration `name:"patience" env:"ASSAY_PATIENCE" default:"10s" help:"How long to try while the fleet does not answer."`
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
	parser, err := kong.New(&c,
		kong.Name("assay"),
		kong.Description("Run untrusted programs under capability policies: one, or a million."),
		kong.Vars{"outcomes": enum(job.Outcomes), "failures": enum(job.Failures())},
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.UsageOnError(),
	)
	if err != nil {
		fmt.Fprintln(stderr, "assay:", err)
		return exitOurs
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "assay: %v; see assay --help\n", err)
		return exitOurs
	}
	a := &app{globals: c.globals, ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr}
	parsed.BindTo(a, (*operate.Host)(nil))
	return a.report(parsed.Run(a, &clikeys.Env{Ctx: ctx, Client: a.client, JSON: a.JSON, Out: stdout, Err: stderr}))
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
