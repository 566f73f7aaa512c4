package guest

import (
	"path/filepath"
	"strings"
)

// SearchPath lists the candidate paths of name, like execvp.
func SearchPath(name string, env []string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	var paths []string
	for _, e := range env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok && name != "" {
			for _, dir := range filepath.SplitList(list) {
				paths = append(paths, filepath.Join("/", dir, name))
			}
		}
	}
	return paths
}
