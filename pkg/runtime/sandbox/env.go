package sandbox

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Environ returns the whole environment of a program, sorted: the defaults, the variables of the
// image, and then more. Later values replace earlier ones.
func Environ(image Image, more ...map[string]string) []string {
	user := cmp.Or(image.Login, UserName)
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": "/workspace",
		"LANG": "C.UTF-8",
		"USER": user, "LOGNAME": user,
	}
	for _, e := range image.Env {
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

// StartsAfresh reports whether an interpreter reads one of these variables at its start, so that a
// running one is not usable.
func StartsAfresh(env map[string]string) bool {
	for k := range env {
		if strings.HasPrefix(k, "PYTHON") || strings.HasPrefix(k, "LD_") || strings.HasPrefix(k, "LC_") || k == "LANG" || k == "TZ" {
			return true
		}
	}
	return false
}
