package problems

import (
	"archive/zip"
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// mostUnpacked is the largest unpacked size of an archive.
const mostUnpacked = 8 * job.GiB

// KattisZip reads an archived problem package without writing to disk.
func KattisZip(ctx context.Context, file string, upload Upload) (*Problem, error) {
	z, err := zip.OpenReader(file)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	total := uint64(0)
	for _, f := range z.File {
		if !fs.ValidPath(strings.TrimSuffix(f.Name, "/")) {
			return nil, fmt.Errorf("%.200q is not a path below the package", f.Name)
		}
		if m := f.Mode(); !m.IsRegular() && !m.IsDir() {
			return nil, fmt.Errorf("%.200q is neither a file nor a directory; pack the target of a link", f.Name)
		}
		if total += min(f.UncompressedSize64, uint64(mostUnpacked)); total > uint64(mostUnpacked) {
			return nil, fmt.Errorf("it has more than %s unpacked", mostUnpacked)
		}
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	root, err := fs.Sub(z, top(z.File))
	if err != nil {
		return nil, err
	}
	return read(ctx, root, name, upload)
}

// top returns the directory of the package in an archive: the directory of problem.yaml.
func top(files []*zip.File) string {
	best := ""
	for _, f := range files {
		if path.Base(f.Name) == "problem.yaml" && (best == "" || len(f.Name) < len(best)) {
			best = f.Name
		}
	}
	return path.Dir(best) // "." without one
}
