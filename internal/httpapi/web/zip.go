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

// zipped are the media types that are worth compressing: all that is text of ours.
var zipped = []string{api.JSON, api.NDJSON, api.Problem}

// minZip is the smallest answer that is compressed, in bytes: one packet is one packet.
const minZip = 1 << 10

// vary says of an answer that it may be compressed.
var vary = []string{"Accept-Encoding"}

// Zipping returns h, whose answers are compressed for those who ask for it. The rest of
// them do not notice. Streams of events, and files, outputs and artifacts, which have
// lengths, ranges and tags of their own, go out as they are.
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
			compressed(w, r) // which reads the rest of what the header says
			return
		}
		w.Header()["Vary"] = vary
		h(w, r)
	}
}
