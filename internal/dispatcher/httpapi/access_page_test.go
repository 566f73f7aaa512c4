package httpapi_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
)

var update = flag.Bool("update", false, "write the table of docs/access.md instead of comparing it")

const (
	accessPage  = "../../../docs/access.md"
	accessBegin = "<!-- what follows is generated from the routes: go test ./internal/dispatcher/httpapi -run AccessPage -update -->\n"
	accessEnd   = "<!-- end of what is generated -->\n"
)

// The page lists the callers of each operation as its route does. TestRolesOfEveryRoute and
// TestRoutesThatDoNotHoldAreRefused check the routes.
func TestAccessPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(accessPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), accessBegin)
	old, after, ends := strings.Cut(rest, accessEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table: %s…%s", accessPage, accessBegin, accessEnd)
	}
	table := accessTable()
	if *update {
		if err := os.WriteFile(accessPage, []byte(before+accessBegin+table+accessEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table, old); diff != "" {
		t.Errorf("docs/access.md is not what the routes say; run go test ./internal/dispatcher/httpapi -run AccessPage -update (-want +got):\n%s", diff)
	}
}

func accessTable() string {
	var b strings.Builder
	b.WriteString("| operation | role | held to a label | held to a policy |\n|---|---|---|---|\n")
	for _, rt := range httpapi.Routes() {
		may := func(what web.Holds) string {
			if rt.Role == identity.None || rt.Holds&what != 0 {
				return "yes"
			}
			return ""
		}
		role := rt.Role.String()
		if rt.Role == identity.None {
			role = "everybody"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", strings.Replace(rt.Pattern, "...}", "}", 1), role, may(web.Label), may(web.Policy))
	}
	return b.String()
}
