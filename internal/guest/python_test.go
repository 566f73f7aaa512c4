package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestPythonAgrees checks that the Python code inside sandboxes has the same constants.
func TestPythonAgrees(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]map[string]any{
		"harness.py": {"REQUEST": RequestFD, "RESULT": ResultFD, "STREAM": StreamFD},
		"preload.py": {"LINK": LinkFD},
		"child.py": {
			"ZYGOTE": ZygoteFD, "HIGH": SlotFD, "MAX_MESSAGE": MaxMessage, "MAX_RUN": MaxRun,
			"ZYGOTE_HELLO": ZygoteHello, "ZYGOTE_ENDED": ZygoteEnded,
			"BOX_READY": BoxReady, "BOX_ENTER": BoxEnter, "BOX_WAITING": BoxWaiting, "BOX_WARM_UP": BoxWarmUp, "BOX_RUN_FILE": BoxRunFile, "BOX_FAILED": BoxFailed,
		},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "guest", "python", file))
		if err != nil {
			t.Fatal(err)
		}
		has := pythonConstants(string(text))
		for name, value := range want {
			if b, ok := value.(byte); ok {
				value = fmt.Sprintf(`b"%c"`, b)
			}
			if got := has[name]; got != fmt.Sprint(value) {
				t.Errorf("%s: %s = %s, want %v", file, name, got, value)
			}
		}
	}
	if WaitingFD != ZygoteFD {
		t.Error("zygote.py knows one number for its connection, whichever it is")
	}
}

var assignment = regexp.MustCompile(`(?m)^([A-Z][A-Z_, ]*) = ([^#\n]+)`)

// pythonConstants returns the values of the names that are assigned at the start of a file's lines, one or several at
// a time.
func pythonConstants(text string) map[string]string {
	all := map[string]string{}
	for _, m := range assignment.FindAllStringSubmatch(text, -1) {
		names, values := strings.Split(m[1], ", "), strings.Split(strings.TrimSpace(m[2]), ", ")
		for i, name := range names {
			if i < len(values) {
				all[name] = shifted(values[i])
			}
		}
	}
	return all
}

// shifted evaluates "32 << 10", and returns other values unchanged.
func shifted(value string) string {
	left, right, ok := strings.Cut(value, " << ")
	a, err1 := strconv.Atoi(left)
	b, err2 := strconv.Atoi(right)
	if !ok || err1 != nil || err2 != nil {
		return value
	}
	return strconv.Itoa(a << b)
}
