package main

import "testing"

// A fleet without tokens is never reached by other machines.
func TestNoTokenOnLoopbackOnly(t *testing.T) {
	for listen, ok := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:0": true, "[::1]:8080": true, "127.1.2.3:1": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "10.0.0.1:80": false, "localhost.example.org:80": false,
	} {
		if err := (&devCmd{Listen: listen, NoToken: true}).checkNoToken(); (err == nil) != ok {
			t.Errorf("%s: %v", listen, err)
		}
		if err := (&devCmd{Listen: listen}).checkNoToken(); err != nil {
			t.Errorf("%s with a token: %v", listen, err)
		}
	}
}
