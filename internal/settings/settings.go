// Package settings refuses what a program could once be told and cannot be told any more, so that nobody who upgrades
// believes it to be in force.
package settings

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Gone are names of flags, without dashes, and what to do instead of giving them.
type Gone map[string]string

// Check returns an error that names the first of them that is given, as a flag in args or in the environment, where an
// empty value counts as none.
func (g Gone) Check(args []string) error {
	for _, name := range slices.Sorted(maps.Keys(g)) {
		flag := "--" + name
		for _, arg := range args {
			if arg == flag || strings.HasPrefix(arg, flag+"=") {
				return fmt.Errorf("%s: there is no such setting any more: %s", flag, g[name])
			}
		}
		if variable := Variable(name); os.Getenv(variable) != "" {
			return fmt.Errorf("%s: there is no such setting any more: %s", variable, g[name])
		}
	}
	return nil
}

// Variable is the environment variable beside a flag.
func Variable(flag string) string {
	return "ASSAY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
