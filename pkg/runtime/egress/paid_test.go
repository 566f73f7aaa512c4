package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/runtime/toll"
)

// TestRequestsAreRationed holds that a flood of requests costs the worker no more than their job's ration, and is charged.
func TestRequestsAreRationed(t *testing.T) {
	var m toll.Meter
	p, at := serve(t, Config{Rules: rules(t, "ok.example.org:443"), Resolve: names{}.resolve, Dial: noDial(t), Toll: &m})
	const lasts = 2 * time.Second
	began, n := time.Now(), 0
	for ; time.Since(began) < lasts; n++ {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "CONNECT refused.example.net:443 HTTP/1.1\r\n\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "HTTP/1.1 403 Forbidden\r\n" {
			t.Fatalf("%q, %v", line, err)
		}
		_ = conn.Close()
	}
	spent := m.Spent()
	t.Logf("%d requests cost %v", n, spent)
	if most := 20*time.Millisecond + lasts/50 + 10*time.Millisecond; spent > most || n < 20 {
		t.Errorf("%d requests cost %v, want at most %v", n, spent, most)
	}
	if r := p.Close(); r.Attempts[0].Count != n {
		t.Errorf("%d attempts, want %d", r.Attempts[0].Count, n)
	}
}

// TestTransfersAreFast holds that the ration leaves room for large transfers.
func TestTransfersAreFast(t *testing.T) {
	var m toll.Meter
	const size = 64 << 20
	_, port := host(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.CopyN(w, endless{}, size) })
	_, at := serve(t, Config{Private: loopback(t), Rules: rules(t, "127.0.0.1:"+port), Toll: &m})
	began := time.Now()
	resp, err := through(at).Get("http://127.0.0.1:" + port + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	t.Logf("64 MiB took %v and cost %v", time.Since(began), m.Spent())
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("64 MiB took %v", took)
	}
	if m.Spent() <= 0 {
		t.Error("they are charged to nobody")
	}
}
