package sandbox

import (
	"maps"
	"slices"
	"strings"
)

// Environ is the whole environment of a program: three defaults, the
// image's, and then more, of which the later wins. It is sorted.
func Environ(image []string, more ...map[string]string) []string {
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": "/workspace",
		"LANG": "C.UTF-8",
	}
	for _, e := range image {
		if k, v, ok := strings.Cut(e, "="); ok {
			env[k] = v
		}
	}
	for _, m := range more {
		maps.Copy(env, m)
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}

// StartsAfresh reports whether an interpreter reads one of these variables when
// it starts, so that one that runs already will not do.
func StartsAfresh(env map[string]string) bool {
	for k := range env {
		if strings.HasPrefix(k, "PYTHON") || strings.HasPrefix(k, "LD_") || strings.HasPrefix(k, "LC_") || k == "LANG" || k == "TZ" {
			return true
		}
	}
	return false
}
