package admit_test

import (
	"fmt"
	"strings"
	"testing"
)

// Of several errors in a map, the message names the first key in order.
func TestFirstErrorOfMaps(t *testing.T) {
	t.Parallel()
	a := withResultCache(t)
	list := func(format string) string {
		var all []string
		for _, letter := range "hgfedcba" {
			all = append(all, fmt.Sprintf(format, letter))
		}
		return strings.Join(all, ",")
	}
	blob := `"sha256:` + strings.Repeat("0", 64) + `"`
	for in, want := range map[string]string{
		`{"program":{"python":{"code":"1"}},"files":{` + list(`"/workspace/%c":{"blob":`+blob+`}`) + `}}`:                                `files["/workspace/a"].blob: `,
		`{"program":{"tests":{"code":"1","stdio":[{}],"limits":{` + list(`"%c-lang":{"wall":2}`) + `}}}}`:                                `program.tests.limits: there is no language "a-lang"`,
		`{"program":{"tests":{"code":"1","stdio":[{}],"limits":{` + list(`"%c-lang":{"wall":-2}`) + `}}}}`:                               `program.tests.limits.a-lang.wall: `,
		`{"program":{"code":{"language":"cpp","files":{"main.cpp":"",` + list(`"x/%c":""`) + `}}},"files":{"/workspace/x":{"text":""}}}`: `is a file where the program has a directory, for /workspace/x/a`,
	} {
		for range 10 {
			_, err := a.Job(t.Context(), "acme", "", []byte(in))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", in, err, want)
				break
			}
		}
	}
}
