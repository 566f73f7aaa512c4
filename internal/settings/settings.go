// Package settings rejects removed settings of a program, so that an upgrade does not ignore them
// silently.
package settings

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Removed maps removed flags, without dashes, to their replacements.
type Removed map[string]string

// Check returns an error that names the first removed flag that is set, in args or in the
// environment. An empty environment value does not count.
func (g Removed) Check(args []string) error {
	for _, name := range slices.Sorted(maps.Keys(g)) {
		flag := "--" + name
		for _, arg := range args {
			if arg == flag || strings.HasPrefix(arg, flag+"=") {
				return fmt.Errorf("%s: this setting was removed: %s", flag, g[name])
			}
		}
		if variable := Variable(name); os.Getenv(variable) != "" {
			return fmt.Errorf("%s: this setting was removed: %s", variable, g[name])
		}
	}
	return nil
}

// Variable returns the environment variable of a flag.
func Variable(flag string) string {
	return "ASSAY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
