package job_test

import (
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

func TestPythonNames(t *testing.T) {
	for _, name := range []string{"x", "_", "_1", "Größe", "數", "é", "e\u0301", "ﬁx", "ª", "µ", "𝐀1", "名前_2", "a·b", "ⅷ", "ไทย", "x٣", strings.Repeat("数", 66)} {
		if !job.PythonName(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for _, name := range []string{"", "1x", "a b", "a-b", "a.b", "٣x", "\u0301e", "😀", "a\x00", "a\xff", "x²", "a/b", "€", strings.Repeat("x", 201)} {
		if job.PythonName(name) {
			t.Errorf("%q is accepted", name)
		}
	}
}
