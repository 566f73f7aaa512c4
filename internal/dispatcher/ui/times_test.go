package ui_test

import (
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

var (
	relative = regexp.MustCompile(`^(now|in \d+ (s|min|h|d)|\d+ (s|min|h|d) ago)$`)
	absolute = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$`)
)

// Every time on a page is relative, with the absolute time as its title and in its datetime.
func TestTimesAreRelative(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.putWorkers()
	has := f.belongings()
	f.submit("one", "waiting", nil, python("1"))
	b := f.as("admin-one")
	for _, path := range []string{"/ui/", "/ui/batches", "/ui/batches/" + string(has.batch), "/ui/jobs", "/ui/jobs/" + string(has.job), "/ui/sessions?state=all", "/ui/sessions/" + string(has.session), "/ui/workers", "/ui/keys", "/ui/audit"} {
		doc, err := html.Parse(strings.NewReader(b.page(path)))
		if err != nil {
			t.Fatal(err)
		}
		times := 0
		for n := range doc.Descendants() {
			if n.Data != "time" {
				continue
			}
			times++
			of := map[string]string{}
			for _, a := range n.Attr {
				of[a.Key] = a.Val
			}
			if text := n.FirstChild.Data; !relative.MatchString(text) || !absolute.MatchString(of["title"]) || strings.Replace(of["title"], " UTC", "Z", 1) != strings.Replace(of["datetime"], "T", " ", 1) {
				t.Errorf("%s has the time %q with %v", path, text, of)
			}
		}
		if times == 0 {
			t.Errorf("%s has no time", path)
		}
	}
}
