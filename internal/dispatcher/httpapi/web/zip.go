package web

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/assay-run/assay/api"
)

// zipped are the compressible media types: the text formats of the API.
var zipped = []string{api.JSON, api.NDJSON, api.Problem}

// minZip is the smallest compressed response in bytes. Smaller ones fit into one packet anyway.
const minZip = 1 << 10

// vary marks a response that may be compressed.
var vary = []string{"Accept-Encoding"}

// Zipping returns h with compression for clients that accept it. It leaves out event streams, and files, outputs and
// artifacts, which have their own lengths, ranges and tags.
func Zipping(pattern string, h http.HandlerFunc) http.HandlerFunc {
	if strings.HasSuffix(pattern, "/events") || strings.HasSuffix(pattern, "/logs") || strings.HasSuffix(pattern, "...}") || strings.Contains(pattern, "/output/") || strings.Contains(pattern, "/links/") {
		return h
	}
	wrap, err := gzhttp.NewWrapper(gzhttp.EnableZstd(true), gzhttp.ZstdCompressionLevel(int(zstd.SpeedFastest)), gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.MinSize(minZip),
		gzhttp.ContentTypeFilter(func(t string) bool {
			t, _, err := mime.ParseMediaType(t)
			return err == nil && slices.Contains(zipped, t)
		}))
	if err != nil {
		panic("httpapi: compression: " + err.Error()) // the options are constants
	}
	compressed := wrap(h)
	return func(w http.ResponseWriter, r *http.Request) {
		if accept := r.Header.Get("Accept-Encoding"); strings.Contains(accept, "gzip") || strings.Contains(accept, "zstd") {
			compressed(w, r) // it parses the header in full
			return
		}
		w.Header()["Vary"] = vary
		h(w, r)
	}
}
