package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// serviceAccount is the directory of a pod's credentials for the API server.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// cluster is a client for two requests of the Kubernetes API, smaller than the client library.
type cluster struct {
	url, token string // url is the address of the namespace's Secrets
	client     *http.Client
}

var _ secrets = (*cluster)(nil)

func openCluster() (*cluster, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("not in a pod of a Kubernetes cluster: KUBERNETES_SERVICE_HOST is not set")
	}
	return newCluster("https://"+net.JoinHostPort(host, port), serviceAccount)
}

func newCluster(server, dir string) (*cluster, error) {
	read := func(name string) (string, error) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		return strings.TrimSpace(string(b)), err
	}
	token, err1 := read("token")
	namespace, err2 := read("namespace")
	ca, err3 := read("ca.crt")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("the pod has no service account's token: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(ca)) {
		return nil, fmt.Errorf("%s/ca.crt: it has no certificate in PEM", dir)
	}
	return &cluster{
		url: server + "/api/v1/namespaces/" + namespace + "/secrets/", token: token,
		client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}},
	}, nil
}

// secretObject is the part of a Secret that we use.
type secretObject struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Data map[string]*[]byte `json:"data"` // null in a patch: deleted
}

func (c *cluster) get(ctx context.Context, name string) (k secretManifest, err error) {
	var s secretObject
	if err := c.ask(ctx, http.MethodGet, name, "", nil, &s); err != nil {
		return k, err
	}
	k = secretManifest{Version: s.Metadata.ResourceVersion, Data: map[string][]byte{}}
	for name, value := range s.Data {
		if value != nil {
			k.Data[name] = *value
		}
	}
	return k, nil
}

func (c *cluster) update(ctx context.Context, name string, k secretManifest) error {
	s := secretObject{Data: map[string]*[]byte{}}
	s.Metadata.ResourceVersion = k.Version // changed since: a conflict
	for name, value := range k.Data {
		s.Data[name] = nil
		if value != nil {
			s.Data[name] = &value
		}
	}
	return c.ask(ctx, http.MethodPatch, name, "application/merge-patch+json", s, nil)
}

func (c *cluster) ask(ctx context.Context, method, name, media string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+name, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("secret %s: %w: %w", name, job.ErrUnavailable, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	switch {
	case err != nil:
		return fmt.Errorf("secret %s: %w: %w", name, job.ErrUnavailable, err)
	case resp.StatusCode == http.StatusConflict:
		return fmt.Errorf("secret %s: %w: it was changed concurrently", name, job.ErrConflict)
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("secret %s: %w: the chart makes it, empty", name, job.ErrNotFound)
	case resp.StatusCode != http.StatusOK:
		var status struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(answer, &status) // a proxy's response has no status
		return fmt.Errorf("secret %s: the API server returned %s: %s", name, resp.Status, status.Message)
	case out == nil:
		return nil
	}
	return json.Unmarshal(answer, out)
}
