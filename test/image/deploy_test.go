package image

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
)

// Both ways to build an image have the same result.
func TestDockerfileMakesTheSame(t *testing.T) {
	t.Chdir(testenv.RepoRoot(t))
	raw, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	pack, err := os.ReadFile("images/pack")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"worker", "dispatcher"} {
		_, stage, ok := strings.Cut(string(raw), " AS "+name+"\n")
		if !ok {
			t.Fatalf("the Dockerfile has no stage %s", name)
		}
		stage, _, _ = strings.Cut(stage, "\nFROM ")
		stage = strings.ReplaceAll(stage, "\\\n", " ")
		var config struct {
			User                  string
			Env, Cmd              []string
			Volumes, ExposedPorts map[string]struct{}
		}
		text, err := os.ReadFile("images/" + name + "/config.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}
		want := []string{`CMD ["` + strings.Join(config.Cmd, `", "`) + `"]`}
		if config.User != "" {
			want = append(want, "USER "+config.User)
		}
		for v := range config.Volumes {
			want = append(want, "VOLUME "+v)
		}
		for p := range config.ExposedPorts {
			want = append(want, "EXPOSE "+strings.TrimSuffix(p, "/tcp"))
		}
		for _, line := range want {
			if !slices.Contains(strings.Split(stage, "\n"), line) {
				t.Errorf("stage %s of the Dockerfile lacks the line %s", name, line)
			}
		}
		vars := regexp.MustCompile(`ASSAY_[A-Z_]+=\S+`).FindAllString(stage, -1)
		slices.Sort(vars)
		told := slices.DeleteFunc(config.Env, func(e string) bool { return strings.HasPrefix(e, "PATH=") })
		slices.Sort(told)
		if !slices.Equal(vars, told) {
			t.Errorf("%s: the Dockerfile sets %q, images/%s/config.json %q", name, vars, name, told)
		}
		for _, program := range regexp.MustCompile(`/(?:out|src/\.cache/[a-z]+)/([a-z0-9-]+)`).FindAllStringSubmatch(stage, -1) {
			if !strings.Contains(string(pack), program[1]) {
				t.Errorf("%s: images/pack does not know %s, which the Dockerfile copies", name, program[1])
			}
		}
	}
}
