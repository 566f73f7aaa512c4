package environment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// An environment is created in steps, each in its own sandbox on the base image. Code of different
// packages never shares a sandbox:
//
//   - pip determines the wheels and fetches them. It cannot start other programs, so no package
//     code runs.
//   - Packages that exist as source only are built, one at a time.
//   - The worker copies, hashes and reads the wheels.
//   - pip unpacks exactly these files, without a network and without other programs.

// sourcesMost is the most packages of an environment that may be built from source.
const sourcesMost = 20

// gather returns the current wheels for packages, one requirement a line.
func (s *Store) gather(ctx context.Context, turn *buildTurn, base Base, packages, dir string) ([]wheelFile, error) {
	var built []wheelFile
	for try := 0; ; try++ {
		wheels, missing, err := s.resolve(ctx, base, packages, built, filepath.Join(dir, strconv.Itoa(try)))
		if err == nil || missing == "" || try == sourcesMost || hasBuilt(built, missing) {
			return wheels, err
		}
		var w wheelFile
		err = turn.source(ctx, func() (err error) {
			w, err = s.fromSource(ctx, base, missing, filepath.Join(dir, "source-"+strconv.Itoa(try)))
			return err
		})
		if err != nil {
			return nil, err
		}
		built = append(built, w)
	}
}

func hasBuilt(built []wheelFile, requirement string) bool {
	name := policy.RequirementName(requirement)
	return slices.ContainsFunc(built, func(w wheelFile) bool { return canonical(w.name) == canonical(name) })
}

// missingWheel matches pip's message about a requirement without a wheel. It is a hint: the named
// package is then built in a sandbox, or unavailable.
var missingWheel = regexp.MustCompile(`(?m)^ERROR: No matching distribution found for ([^;\n]+)`)

// resolve fetches the required wheels and copies them. If one is missing, it returns its
// requirement.
func (s *Store) resolve(ctx context.Context, base Base, packages string, built []wheelFile, dir string) (wheels []wheelFile, missing string, err error) {
	run := pipRun{
		args:   []string{"download", "--only-binary", ":all:", "--dest", wheelsDir, "--find-links", builtDir, "-r", buildList},
		files:  append(filesOf(built, builtDir), runtime.File{Path: buildList, Data: []byte(packages + "\n")}),
		online: true,
	}
	said, err := s.pip(ctx, base, run, func(work *os.Root) (err error) {
		wheels, err = takeWheels(work, path.Base(wheelsDir), dir, int64(s.cfg.Size))
		return err
	})
	if found := missingWheel.FindStringSubmatch(said); err != nil && found != nil {
		if missing = strings.TrimSpace(found[1]); !policy.IsRequirement(missing) {
			missing = ""
		}
	}
	for i := range wheels {
		wheels[i].built = slices.ContainsFunc(built, func(b wheelFile) bool { return b.sum == wheels[i].sum })
	}
	return wheels, missing, err
}

// fromSource builds one package. The code of the package and its build dependencies can only create
// a wheel of that name.
func (s *Store) fromSource(ctx context.Context, base Base, requirement, dir string) (w wheelFile, err error) {
	run := pipRun{
		args:   []string{"wheel", "--no-deps", "--wheel-dir", wheelsDir, "-r", buildList},
		files:  []runtime.File{{Path: buildList, Data: []byte(requirement + "\n")}},
		online: true, builds: true,
	}
	name := policy.RequirementName(requirement)
	_, err = s.pip(ctx, base, run, func(work *os.Root) error {
		wheels, err := takeWheels(work, path.Base(wheelsDir), dir, int64(s.cfg.Size))
		if err != nil {
			return err
		}
		if len(wheels) != 1 || canonical(wheels[0].name) != canonical(name) {
			return buildError("building %s produced another package", requirement)
		}
		w = wheels[0]
		return nil
	})
	return w, err
}

// filesOf returns wheels as files in a directory of a sandbox.
func filesOf(wheels []wheelFile, dir string) (out []runtime.File) {
	for _, w := range wheels {
		out = append(out, runtime.File{Path: path.Join(dir, w.file), Open: func(context.Context) (io.ReadCloser, error) { return os.Open(w.path) }})
	}
	return out
}

// install unpacks wheels and copies the result to the directory layer.
func (s *Store) install(ctx context.Context, base Base, wheels []wheelFile, layer string) (n int64, tree string, err error) {
	if len(wheels) == 0 { // only the image's own packages
		return 0, hex.EncodeToString(sha256.New().Sum(nil)), nil
	}
	var list strings.Builder
	for i := range wheels {
		fmt.Fprintln(&list, wheels[i].requirement())
	}
	// Files have the same paths in this root as in jobs. Packages that the image already has are
	// installed again, because they could not be replaced. Modules are compiled (see byteCodeEpoch),
	// because programs cannot write byte code here.
	run := pipRun{
		args: []string{"install", "--root", buildRoot, "--ignore-installed", "--no-deps", "--no-index", "--only-binary", ":all:",
			"--no-warn-script-location", "--find-links", wheelsDir, "-r", buildList},
		files: append(filesOf(wheels, wheelsDir), runtime.File{Path: buildList, Data: []byte(list.String())}),
	}
	_, err = s.pip(ctx, base, run, func(work *os.Root) error {
		from, err := work.OpenRoot(path.Base(buildRoot))
		if err != nil {
			return buildError("pip installed nothing")
		}
		defer from.Close()
		n, tree, err = copyLayer(from, layer, base, int64(s.cfg.Size))
		return err
	})
	return n, tree, err
}
