package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/assay-run/assay/internal/advisories"
)

// knownHoles returns and logs this host's known vulnerabilities. If the worker must reject them,
// they are an error. An unknown version is only logged.
func knownHoles(ctx context.Context, cfg config) (ids []string, err error) {
	found, unknown := advisories.Host{Runsc: cfg.runsc}.Examine(ctx)
	var errs []error
	for _, f := range found {
		ids = append(ids, f.ID)
		slog.WarnContext(ctx, "known vulnerability on this host", "id", f.ID, "program", f.Program, "version", f.Version,
			"fixed", strings.Join(f.Fixed, ", "), "what", f.What, "source", f.Source, "package_log_read", f.Logged)
		errs = append(errs, errors.New(f.String()))
	}
	for _, u := range unknown {
		slog.WarnContext(ctx, "known vulnerabilities of this host not checked", "unknown", u)
	}
	if cfg.RefuseKnownHoles && len(errs) > 0 {
		return nil, fmt.Errorf("--refuse-known-holes: %w", errors.Join(errs...))
	}
	return ids, nil
}
