package httpapi_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/assay-run/assay/api"
)

func TestZstd(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	pack := func(s string) string {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(z, s)
		_ = z.Close()
		return b.String()
	}
	u := f.openUpload("")
	at := "/v1/uploads/" + string(u.ID) + "/chunks/0"
	packed := pack(jobLines(0, 100))
	header := []string{"Content-Type", ndjson, "Content-Encoding", "zstd"}
	f.want(http.StatusUnprocessableEntity, nil, "PUT", at, "not zstd at all", header...)
	f.want(http.StatusUnprocessableEntity, nil, "PUT", at, packed[:len(packed)-9], header...)
	f.want(http.StatusRequestEntityTooLarge, nil, "PUT", at, pack(strings.Repeat(" ", 33<<20)), header...) // a decompression bomb
	f.want(200, &u, "PUT", at, packed, header...)
	if u.Jobs != 100 {
		t.Errorf("%+v", u)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", f.url+"/v1/languages", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "zstd")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	z, err := zstd.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	whole, err := io.ReadAll(z)
	if err != nil || resp.Header.Get("Content-Encoding") != "zstd" || !strings.Contains(string(whole), "python") || resp.Header.Get("Content-Type") != api.JSON {
		t.Errorf("%v, %v, %.100q", err, resp.Header, whole)
	}
}
