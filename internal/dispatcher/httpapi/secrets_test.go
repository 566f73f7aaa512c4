package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/secret"
	"github.com/assay-run/assay/pkg/store"
)

func TestSecrets(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	c := f.client()
	const value = "a value that nobody gets back"
	for _, v := range []string{"the one before", value} {
		if err := c.PutSecret(t.Context(), "pypi", v); err != nil {
			t.Fatal(err)
		}
	}
	_, body := f.do("GET", "/v1/secrets", "")
	if strings.Contains(body, value) || !strings.Contains(body, `"pypi"`) {
		t.Errorf("the list is %s", body)
	}
	sealed, err := f.store.Sealed(t.Context(), []store.SecretRef{{Tenant: identity.DefaultTenant, Name: "pypi"}})
	if err != nil || len(sealed) != 1 {
		t.Fatalf("sealed: %v, %v", sealed, err)
	}
	for _, raw := range sealed {
		if strings.Contains(string(raw), "nobody") {
			t.Error("the value is stored as it is")
		}
	}
	f.want(http.StatusCreated, nil, "POST", "/v1/jobs", `{"program":{"python":{"code":"1"}},"policy":{"env":{"secrets":{"TOKEN":"pypi"}}}}`)
	resp, body := f.do("POST", "/v1/jobs", `{"program":{"python":{"code":"1"}},"policy":{"env":{"secrets":{"TOKEN":"npm"}}}}`)
	checkProblem(t, resp, body, http.StatusUnprocessableEntity, "policy.env.secrets.TOKEN", 0)
	if err := c.DeleteSecret(t.Context(), "pypi"); err != nil {
		t.Fatal(err)
	}
	if list, err := c.Secrets(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("after the deletion: %v, %v", list, err)
	}
}

func TestSecretsThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for _, body := range []string{`{"value":"abc"}`, `{"value":"äöü"}`, `{"value":"` + strings.Repeat("x", 40000) + `"}`, `{"value":"a\u0000bcd"}`, `{}`, `{"Value":"abcd"}`, `"abcd"`} {
		resp, answer := f.do("PUT", "/v1/secrets/a", body)
		checkProblem(t, resp, answer, http.StatusUnprocessableEntity, "", 0)
	}
	resp, answer := f.do("PUT", "/v1/secrets/a%20b", `{"value":"abcd"}`)
	checkProblem(t, resp, answer, http.StatusUnprocessableEntity, "name", 0)
	resp, answer = f.do("DELETE", "/v1/secrets/none", "")
	checkProblem(t, resp, answer, http.StatusNotFound, "", 0)

	keyless := newFleet(t, func(c *parts) {
		k, err := secret.New("", c.Store)
		if err != nil {
			t.Fatal(err)
		}
		c.Secrets = k
	})
	resp, answer = keyless.do("PUT", "/v1/secrets/a", `{"value":"abcd"}`)
	if resp.StatusCode != http.StatusForbidden || !strings.Contains(answer, "ASSAY_SECRETS_KEY") {
		t.Errorf("without a key: %d %s", resp.StatusCode, answer)
	}
}
