package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"text/template"
	"time"
)

// ContainerdConfig configures a containerd. Only Dir is required.
type ContainerdConfig struct {
	// Dir holds images, snapshots, state, configuration and log.
	Dir string
	// BinDir holds containerd, its shims and ctr. Default: PATH.
	BinDir string
	// LogLevel is containerd's log level: debug, info, warn (default).
	LogLevel string
	// Log receives its log; nil: a file in Dir, which grows.
	Log *os.File
}

// The directory and name of the socket. SocketDir may replace the directory.
const sockets, socket = "s", "containerd.sock"

// ContainerdAddress returns the address of the containerd of a directory, if one runs there.
func ContainerdAddress(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return filepath.Join(socketPath(dir, sockets), socket), nil
}

// Containerd is a running private containerd.
type Containerd struct {
	dir, stateDir, address, logFile, binDir, version string
	proc                                             *Process
	log                                              *os.File // nil: logFile
}

// The CRI plugin is for Kubernetes; the snapshotters left out need a file system of their own. Version 2 of the file
// format is the newest that 1.6 reads, and 2.x still takes it and converts it; a plugin that a version does not have is
// not an error in this list.
var containerdConfig = template.Must(template.New("config.toml").Parse(`# Written by Assay at every start.
version = 2
root = "{{.Root}}"
state = "{{.State}}"
disabled_plugins = [
  "io.containerd.grpc.v1.cri",
  "io.containerd.cri.v1.images",
  "io.containerd.cri.v1.runtime",
  "io.containerd.internal.v1.tracing",
  "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.nri.v1.nri",
  "io.containerd.podsandbox.controller.v1.podsandbox",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{{.Address}}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{{.Root}}/opt"
`))

// StartContainerd runs a private containerd beside any of the system. It first removes leftovers of
// a killed predecessor in cfg.Dir (running containers, shims, mounts) and keeps images and
// snapshots. It needs root.
func StartContainerd(ctx context.Context, cfg ContainerdConfig) (*Containerd, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil || cfg.Dir == "" {
		return nil, fmt.Errorf("start containerd: bad directory %q", cfg.Dir)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("start containerd: needs root, to make namespaces and mounts for other people's code; run with sudo")
	}
	// Mounts are found by their path, which the kernel reports without symbolic links.
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	c := &Containerd{dir: dir, binDir: cfg.BinDir, log: cfg.Log, stateDir: filepath.Join(dir, "state"), logFile: filepath.Join(dir, "containerd.log")}
	sockets, err := SocketDir(dir, sockets, 0)
	if err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	c.address = filepath.Join(sockets, socket)
	if err := c.checkInstalled(ctx); err != nil {
		return nil, err
	}
	if err := c.refuseSecond(); err != nil {
		return nil, err
	}
	if err := c.sweep(ctx); err != nil {
		return nil, fmt.Errorf("start containerd: clean up after the previous one: %w", err)
	}
	if err := c.start(ctx, cfg.LogLevel); err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	return c, nil
}

// Address is the path of containerd's socket.
func (c *Containerd) Address() string { return c.address }

// Version returns the version that containerd reports, such as "1.6.20" or "v2.4.2".
func (c *Containerd) Version() string { return c.version }

// Process returns the daemon's process. A restart replaces it.
func (c *Containerd) Process() *Process { return c.proc }

// PID is the daemon's process id, for tests that kill it.
func (c *Containerd) PID() int { return c.proc.PID() }

// Stop ends the daemon, then everything that ran under it: containers, shims, mounts. Images stay
// for the next start. A second call does nothing.
func (c *Containerd) Stop(ctx context.Context) error {
	c.proc.Stop(ctx, 10*time.Second, syscall.SIGTERM)
	// Even without time left, no containers with untrusted code may stay behind.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := c.sweep(ctx); err != nil {
		return fmt.Errorf("stop containerd: %w", err)
	}
	if sockets := filepath.Dir(c.address); filepath.Dir(sockets) != c.dir {
		_ = os.RemoveAll(sockets) // in the temporary directory: the usual path was too long
	}
	return nil
}

// Restart replaces the daemon like an upgrade or a crash: it kills the daemon and starts it again.
// The containers keep running.
func (c *Containerd) Restart(ctx context.Context) error {
	c.proc.Stop(ctx, 0)
	if err := c.run(ctx); err != nil {
		return fmt.Errorf("restart containerd: %w", err)
	}
	return nil
}

// Import loads an OCI archive (see images/build) and unpacks it, with containerd's own client.
func (c *Containerd) Import(ctx context.Context, namespace, archive string) error {
	cmd := c.command(ctx, "ctr", "--address", c.address, "--namespace", namespace, "images", "import", archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import %s: %w\n%s", archive, err, out)
	}
	return nil
}

// HasImage reports whether the namespace has an image of that name.
func (c *Containerd) HasImage(ctx context.Context, namespace, name string) (bool, error) {
	cmd := c.command(ctx, "ctr", "--address", c.address, "--namespace", namespace, "images", "list", "--quiet", "name=="+name)
	out, err := cmd.Output()
	if err != nil {
		return false, fmt.Errorf("list images: %w", err)
	}
	return strings.TrimSpace(string(out)) == name, nil
}

var versionPattern = regexp.MustCompile(`\bv?\d+\.\d+\.\d+\S*`)

// checkInstalled finds the programs and the version.
func (c *Containerd) checkInstalled(ctx context.Context) error {
	if missing := MissingContainerd(c.searchPath()); len(missing) > 0 {
		return fmt.Errorf("start containerd: %s is not installed; run: apt-get install containerd runc (in a clone of the repository: make setup)", missing[0])
	}
	out, err := c.command(ctx, "containerd", "--version").Output()
	if err != nil {
		return fmt.Errorf("start containerd: containerd --version: %w", err)
	}
	if c.version = versionPattern.FindString(string(out)); c.version == "" {
		c.version = strings.TrimSpace(string(out))
	}
	return nil
}

// refuseSecond makes sure that no live daemon is removed. The caller's lock already prevents that
// among our own processes.
func (c *Containerd) refuseSecond() error {
	conn, err := net.DialTimeout("unix", c.address, time.Second)
	if err != nil {
		return nil
	}
	_ = conn.Close()
	return fmt.Errorf("start containerd: one already answers on %s; stop it first", c.address)
}

func (c *Containerd) start(ctx context.Context, level string) error {
	if level == "" {
		level = "warn"
	}
	var text strings.Builder
	values := map[string]string{"Root": filepath.Join(c.dir, "root"), "State": c.stateDir, "Address": c.address}
	for _, v := range values {
		if strings.ContainsAny(v, "\"\\\n") {
			return fmt.Errorf("directory %q has characters that containerd's configuration cannot hold", v)
		}
	}
	if err := containerdConfig.Execute(&text, values); err != nil {
		return err
	}
	text.WriteString("\n[debug]\n  level = \"" + level + "\"\n")
	if err := os.WriteFile(c.configFile(), []byte(text.String()), 0o644); err != nil {
		return err
	}
	return c.run(ctx)
}

func (c *Containerd) configFile() string { return filepath.Join(c.dir, "config.toml") }

// run starts the daemon with the existing configuration and waits until it serves. If it does not,
// its leftovers are removed.
func (c *Containerd) run(ctx context.Context) error {
	if err := c.restart(ctx); err != nil {
		return errors.Join(err, c.Stop(ctx))
	}
	return nil
}

// restart starts the daemon with the existing configuration and waits until it serves. If it does
// not, no daemon is left, but the containers of the previous daemon keep running.
func (c *Containerd) restart(ctx context.Context) error {
	log := c.log
	if log == nil {
		var err error
		if log, err = os.OpenFile(c.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
			return err
		}
		defer log.Close() // the child has its own
	}
	// Not bound to ctx, which ends before the daemon does.
	cmd := c.command(context.WithoutCancel(ctx), "containerd", "--config", c.configFile())
	cmd.Stdout, cmd.Stderr = log, log
	proc, err := Start(cmd, syscall.SIGTERM)
	if err != nil {
		return err
	}
	c.proc = proc
	if err := c.proc.Ready(ctx, "containerd", c.logFile, func() error { return c.answers(ctx) }); err != nil {
		c.proc.Stop(ctx, 10*time.Second, syscall.SIGTERM)
		return err
	}
	return nil
}

// answers requests the version over the socket: the socket accepts connections before the services
// are up.
func (c *Containerd) answers(ctx context.Context) error {
	conn, err := net.DialTimeout("unix", c.address, time.Second)
	if err != nil {
		return err
	}
	_ = conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if out, err := c.command(ctx, "ctr", "--address", c.address, "version").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// command runs one of containerd's programs with the shims of the same installation first in PATH.
func (c *Containerd) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	path, err := c.lookPath(name)
	if err != nil {
		path = name // starting it reports the same error
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "PATH="+c.searchPath())
	return cmd
}

// searchPath includes the system administrator's directories: runc is there, and PATH of an
// ordinary user may omit them.
func (c *Containerd) searchPath() string {
	path := SearchPath()
	if c.binDir != "" {
		path = c.binDir + ":" + path
	}
	return path
}

// SearchPath lists the directories of containerd's programs.
func SearchPath() string { return os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin" }

// MissingContainerd returns the programs that containerd needs to run containers and that are in
// none of these directories.
func MissingContainerd(searchPath string) (names []string) {
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc"} {
		if _, err := lookPath(searchPath, name); err != nil {
			names = append(names, name)
		}
	}
	return names
}

func (c *Containerd) lookPath(name string) (string, error) { return lookPath(c.searchPath(), name) }

func lookPath(searchPath, name string) (string, error) {
	for _, dir := range filepath.SplitList(searchPath) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}
