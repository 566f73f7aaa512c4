package show

import (
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

func TestTold(t *testing.T) {
	t.Parallel()
	const url = "https://e.org/"
	for want, d := range map[string]job.Delivery{
		"goes to https://e.org/":                                {URL: url},
		"delivered to https://e.org/":                           {URL: url, Tries: 2, DeliveredAt: time.Unix(1, 0)},
		"to https://e.org/ failed 3 times so far: answered 500": {URL: url, Tries: 3, LastError: "answered 500"},
		"to https://e.org/ given up after 9 tries: no answer":   {URL: url, Tries: 9, LastError: "no answer", GivenUpAt: time.Unix(1, 0)},
	} {
		if got := callbackProgress(&d); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
