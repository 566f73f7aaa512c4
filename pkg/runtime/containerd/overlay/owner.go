package overlay

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/assay-run/assay/pkg/job"
)

// othersMost is the most files with other owners below a writable directory of an image, because
// each is changed individually.
const othersMost = 10_000

// others are the files below a directory that do not belong to its owner.
type others struct {
	paths  []string // relative to the directory
	inodes int      // their inodes in a scratch, with their parent directories
	many   bool     // there are more than the limit
}

func listOthers(dir string, uid, gid int) (*others, error) {
	out, ways := &others{}, map[string]bool{}
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		if int(st.Uid) == uid && int(st.Gid) == gid {
			return nil
		}
		if len(out.paths) == othersMost {
			out.many = true
			return fs.SkipAll
		}
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		out.paths = append(out.paths, rel)
		for ; rel != "."; rel = path.Dir(rel) {
			ways[rel] = true
		}
		return nil
	})
	out.inodes = len(ways)
	return out, err
}

// give makes the program, host user uid, the owner of these files. dir is the overlay's directory,
// which only copies the owner of a file.
func (o *others) give(dir string, uid int) error {
	for _, p := range o.paths {
		if err := os.Lchown(filepath.Join(dir, p), uid, uid); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error if there are too many.
func (o *others) check(path string) error {
	if o.many {
		return job.Invalid("policy.write", "%q of the image has more than %d files of other owners than the directory's; change their owner", path, othersMost)
	}
	return nil
}
